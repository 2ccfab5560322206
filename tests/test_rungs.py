"""The rungs of the ladder: families, heads and policies, and the trees that are chosen for a head."""

import json

import pytest

from specdec.drafts.store import policy_from_json, policy_to_json
from specdec.errors import SpecdecError
from specdec.policies import candidates, choose, write
from specdec.policy import chain, dynamic, static
from specdec.rungs import FAMILIES, Rung, find_families, fingerprint, in_words, kind_of, own_policy, rungs


def head(models, name, family=None, policy=None, **config):
    """The folder of a head whose weights nobody reads."""
    folder = models / name
    folder.mkdir(parents=True)
    own = {"family": family or name, "policy": policy_to_json(policy or dynamic(4, 3, 8))}
    (folder / "config.json").write_text(json.dumps({"specdec": own, **config}))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def models(tmp_path):
    head(tmp_path, "eagle1")
    head(tmp_path, "medusa", policy=static([3, 2], rule="top-k"), medusa_num_heads=3)
    head(tmp_path, "eagle3")
    head(tmp_path, "eagle3-one-step", family="eagle3")
    return tmp_path


@pytest.mark.parametrize(
    ("policy", "words", "kind"),
    [
        (chain(3), "chain(3)", "chain"),
        (static(parents=[0, 1, 2]), "chain(3)", "chain"),
        (static([2, 1]), "static(2 + 2)", "static"),
        (dynamic(4, 3, 8), "dynamic(4, 3, 8)", "dynamic"),
    ],
)
def test_a_policy_has_a_kind_and_a_name(policy, words, kind):
    assert (in_words(policy), kind_of(policy)) == (words, kind)


def test_without_names_the_families_are_those_with_a_head_in_the_order_of_the_ladder(models):
    found = find_families([], models)
    assert [(f.name, f.head, f.kind) for f in found] == [
        ("ngram", "ngram", "chain"),
        ("medusa", "medusa", "static"),
        ("eagle1", "eagle1", "static"),
        ("eagle2", "eagle1", "dynamic"),
        ("eagle3", "eagle3", "dynamic"),
    ]
    assert [f.deepest for f in found] == [None, 3, None, None, None]


def test_an_ablation_is_named_by_its_folder_and_has_its_familys_kind_of_tree(models):
    (found,) = find_families(["eagle3-one-step"], models)
    assert (found.name, found.kind, found.draft) == (
        "eagle3-one-step",
        "dynamic",
        str(models / "eagle3-one-step"),
    )


def test_every_head_has_its_familys_tree_and_one_chain_as_long_as_that_of_the_others(models):
    found = rungs(find_families([], models), "bf16", 0.0, chain_length=5)
    assert [(rung.family, in_words(rung.policy), rung.own) for rung in found] == [
        ("ngram", "chain(8)", True),  # already longer than 5
        ("medusa", "static(3 + 6)", True),
        ("medusa", "chain(3)", False),  # it has three heads
        ("eagle1", "static(3 + 6 + 6)", True),  # it was saved with a tree of another kind
        ("eagle1", "chain(5)", False),
        ("eagle2", "dynamic(4, 3, 8)", True),  # the chain of this head is there
        ("eagle3", "dynamic(4, 3, 8)", True),
        ("eagle3", "chain(5)", False),
    ]
    assert len({rung.name for rung in found}) == len(found)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["eagle4"], "there is no family 'eagle4': the families are ngram, vanilla, medusa"),
        (["vanilla"], "the family vanilla has no head: there is no .*vanilla/config.json; train it"),
    ],
)
def test_a_family_that_cannot_be_measured_is_refused(models, names, sentence):
    with pytest.raises(SpecdecError, match=sentence):
        find_families(names, models)


def test_a_folder_that_is_missing_or_has_no_head_is_refused(tmp_path):
    with pytest.raises(SpecdecError, match=r"there is no folder .*nowhere: --heads is a folder"):
        find_families([], tmp_path / "nowhere")
    with pytest.raises(SpecdecError, match=r"there is no trained head in .*: train one with `specdec train`"):
        find_families([], tmp_path)
    assert [f.name for f in find_families(["ngram"], tmp_path)] == ["ngram"]


def test_another_head_or_another_policy_has_another_fingerprint(models):
    (family,) = find_families(["eagle3"], models)
    first = fingerprint(family)
    assert fingerprint(find_families(["eagle3"], models)[0]) == first
    (family.folder / "model.safetensors").write_bytes(b"other weights")
    assert fingerprint(family) != first


# -- choosing ----------------------------------------------------------------------------------------------


def test_candidates_are_of_the_familys_kind_distinct_and_no_deeper_than_it_looks(models):
    for family in find_families([], models):
        found = candidates(family)
        assert 7 <= len(found) == len({in_words(policy) for policy in found})
        assert {kind_of(policy) for policy in found} == {family.kind}
        assert family.deepest is None or max(policy.depth for policy in found) <= family.deepest


def row(family, policy, bound, precision="bf16", temperature=0.0):
    return {
        "family": family,
        "policy": in_words(policy),
        "nodes": policy.nodes,
        "precision": precision,
        "temperature": temperature,
        "bound": bound,
    }


def test_the_candidate_of_most_tokens_per_time_is_chosen_and_of_equals_the_smaller_one():
    rows = [
        row("eagle3", dynamic(4, 3, 8), 1.4),
        row("eagle3", dynamic(3, 2, 6), 1.4),
        row("eagle3", dynamic(2, 2, 3), 1.3),
        row("eagle3", dynamic(2, 2, 3), 1.2, temperature=1.0),
        row("eagle3", dynamic(4, 3, 8), 1.1, temperature=1.0),
        row("eagle1", static([2]), 1.0),
    ]
    assert choose(rows) == [rows[1], rows[3], rows[5]]


def test_what_was_chosen_lies_with_the_head_and_is_what_the_ladder_measures(models):
    """EAGLE-1 and EAGLE-2 share a head: each has its own choice, and the head drafts with the better."""
    flat, tree, deep = static([2], rule="top-k"), dynamic(2, 2, 3), dynamic(3, 2, 6)
    all_rungs = [Rung("eagle1", "eagle1", flat, True)]
    all_rungs += [Rung("eagle2", "eagle1", policy, True) for policy in (tree, deep)]
    one, two, _ = find_families(["eagle1", "eagle2", "ngram"], models)
    write(one, [row("eagle1", flat, 1.1)], all_rungs)
    chosen = [row("eagle2", tree, 1.3), row("eagle2", deep, 1.2, temperature=1.0)]
    assert write(two, chosen, all_rungs) == models / "eagle1" / "config.json"
    one, two, ngram = find_families(["eagle1", "eagle2", "ngram"], models)
    assert own_policy(one, "bf16", 0.0) == flat
    assert own_policy(two, "bf16", 0.0) == tree
    assert own_policy(two, "fp32", 0.0) == tree  # where outputs are compared, the trees are those of bf16
    assert own_policy(two, "bf16", 1.0) == deep
    assert own_policy(two, "int4", 0.0) == dynamic(2, 2, 3)  # not chosen: what is narrow enough for it
    config = json.loads((models / "eagle1" / "config.json").read_text())
    assert policy_from_json(config["specdec"]["policy"]) == tree
    assert not list(models.glob("*/*.part"))

    write(two, [row("eagle2", deep, 1.25)], all_rungs)  # a second choice takes the place of the first
    (two,) = find_families(["eagle2"], models)
    assert own_policy(two, "bf16", 0.0) == deep
    assert len(two.choices) == 3
    assert write(ngram, [], all_rungs) is None


def test_a_configuration_whose_policies_cannot_be_read_is_refused(models):
    file = models / "eagle3" / "config.json"
    config = json.loads(file.read_text())
    config["specdec"]["policies"] = [{"kind": "dynamic"}]
    file.write_text(json.dumps(config))
    with pytest.raises(SpecdecError, match=r"the policies in .*config.json cannot be read: write them again"):
        find_families(["eagle3"], models)


def test_the_ladder_knows_every_family_that_can_be_trained():
    from specdec.train.families import FAMILIES as TRAINED

    assert {h for h, _ in FAMILIES.values()} - {"ngram"} == {family.head for family in TRAINED.values()}
