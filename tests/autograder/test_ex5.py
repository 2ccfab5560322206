"""Exercise 5 on a bank of right and wrong solutions: hidden checks, visible checks, both graders."""

import importlib
import json
import math
import random
from collections.abc import Iterator

import pytest
import torch
from bank import Bank
from ex5_solutions import INSIDE, RIGHT, WRONG
from grading import Graded, run_cli

from autograder import intake
from autograder.ex5 import reference, rule, test_loss, test_parts, test_run, test_unroll
from autograder.exercises import template

BANK = Bank("ex5")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small matrices, many of them: a second thread only costs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_the_points_sum_to_twenty_and_three_of_them_are_given_by_hand() -> None:
    assert sum(BANK.points.values()) == 17
    assert template(BANK.exercise).written == {"explanation": 3}


def test_the_reference_solution_loses_nothing() -> None:
    assert BANK.lost(BANK.solved()) == {}
    assert BANK.told(BANK.solved()) == {}


def test_the_empty_release_earns_nothing_and_is_told_so() -> None:
    assert BANK.lost(BANK.released()) == dict.fromkeys(BANK.points, "not-written")
    told = BANK.told(BANK.released())
    assert set(told) == set(BANK.points)
    assert all(BANK.ideas["not-written"]["sentence"] in sentence for sentence in told.values())


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_idea_loses_its_own_points_and_is_named(name: str) -> None:
    changes, expected = WRONG[name]
    notebook = BANK.solved(**changes)
    assert BANK.lost(notebook) == expected
    told = BANK.told(notebook)
    # a visible check says that it waits, and fails nothing, where the hidden one is blocked
    assert set(told) == {check for check, idea in expected.items() if idea != "blocked"}
    for check, sentence in told.items():
        assert BANK.ideas[expected[check]]["sentence"] in sentence


def test_the_bank_has_a_wrong_solution_for_every_check_and_every_idea() -> None:
    named = {idea for _, expected in WRONG.values() for idea in expected.values()}
    general = {"not-written", "raised", "shape", "timed out", "out of memory", "crashed", "error"}
    by_hand = {"explanation", "by hand"}
    # the sentences of unroll-inputs and unroll-calls are met below
    assert set(BANK.ideas) - named == general | by_hand | {"unroll-inputs", "unroll-calls"}


def test_a_mask_of_its_own_and_a_second_call_are_named() -> None:
    source = BANK.solutions["unroll-code"]
    masked = source.replace("ttt_mask(lengths, steps)", "ttt_mask(lengths, steps) | True")
    assert BANK.lost(BANK.solved(unroll_code=masked)) == {"unroll-inputs": "unroll-inputs"}
    call = "        logits.append"
    twice = source.replace(
        call, "        head(tokens, hidden, positions(lengths, k), past[:-1], mask)\n" + call
    )
    missing = BANK.lost(BANK.solved(unroll_code=twice))
    assert missing["unroll-inputs"] == "unroll-calls"


@pytest.mark.parametrize("style", RIGHT)
def test_right_work_in_any_style_gets_full_marks(style: str) -> None:
    notebook = BANK.solved(**RIGHT[style])
    assert BANK.lost(notebook) == {}
    assert BANK.told(notebook) == {}


def test_wrong_ideas_in_several_parts_lose_the_points_of_each() -> None:
    parts = ("M23, causal in the later steps", "a roll of the whole row", "M26, hidden states are detached")
    parts += ("all steps weigh the same", "a plain mean at every depth")
    changes, expected = {}, {}
    for name in parts:
        changes |= WRONG[name][0]
        expected |= WRONG[name][1]
    assert BANK.lost(BANK.solved(**changes)) == expected


@pytest.mark.parametrize("earlier", ["M25, targets stand still", "weights are not divided by"])
def test_a_right_part_that_calls_no_earlier_one_keeps_its_points(earlier: str) -> None:
    changes, expected = WRONG[earlier]
    assert BANK.lost(BANK.solved(**changes, **INSIDE)) == expected


def test_a_half_finished_notebook_gets_what_it_earned() -> None:
    cells = {f"{name}_code": BANK.solutions[f"{name}-code"] for name in ("mask", "shift")}
    missing = BANK.lost(BANK.half(**cells))
    assert {name.split("-")[0] for name in missing} == {"loss", "unroll", "train", "acceptance", "compare"}
    assert set(missing.values()) == {"not-written"}
    late = BANK.lost(
        BANK.half(**{f"{name}_code": BANK.solutions[f"{name}-code"] for name in ("unroll", "train")})
    )
    assert {idea for name, idea in late.items() if name.split("-")[0] in ("unroll", "train", "compare")} == {
        "blocked"
    }


def test_a_part_that_waits_for_an_earlier_one_is_pending_not_lost() -> None:
    missing = BANK.lost(
        BANK.solved(unroll_code="def unroll(head, tokens, features, lengths, steps):\n    return 1")
    )
    assert {idea for name, idea in missing.items() if name.startswith("unroll")} <= {"shape", "raised"}
    assert {idea for name, idea in missing.items() if not name.startswith("unroll")} == {"blocked"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a pasted class may not like to be called
@pytest.mark.parametrize("module", ["train.unroll", "train.losses", "train.trainer", "drafts.eagle3"])
def test_pasting_the_library_earns_less_than_two_fifths(module: str) -> None:
    """Each public name of the modules that do this for padded batches, under every name that is asked for."""
    library = importlib.import_module(f"specdec.{module}")
    public = [
        name
        for name, value in vars(library).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", "") == library.__name__
    ]
    assert public
    rest = dict.fromkeys(("shift_code", "loss_code", "unroll_code", "train_code"), "")
    for name in public:
        paste = "".join(f"{part} = {name}\n" for part in rule.PARTS)
        source = f"from specdec.{module} import {name}\n{paste}"
        missing = BANK.lost(BANK.solved(mask_code=source, **rest))
        earned = sum(points for check, points in BANK.points.items() if check not in missing)
        assert earned < 0.4 * sum(BANK.points.values()), name


def test_the_experiment_is_left_out_by_the_grader() -> None:
    cells = BANK.solved()["cells"]
    (experiment,) = (cell for cell in cells if "experiment" in cell["metadata"].get("tags", []))
    assert "setup" in experiment["metadata"]["tags"]  # what both graders leave out
    parsed = intake.parse(BANK.solved(), template(BANK.exercise))
    assert "".join(experiment["source"]) not in [source for _, source in parsed.cells]


@pytest.mark.sandbox
def test_both_graders_agree_and_the_explanation_waits_for_its_reader(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder, out = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out")
    handed_in = {
        "reference": BANK.solved(),
        "m24": BANK.solved(**WRONG["M24, features at every step"][0]),
        "silent": BANK.solved(**RIGHT["loops over rows"], explanation="YOUR ANSWER HERE"),
    }
    for student, notebook in handed_in.items():
        BANK.hand_in(folder, student, notebook)
    graded = Graded(out, run_cli("grade", folder, "--out", out, "--exercise", "ex5"))
    scores = {
        student: (row["score"], row["nbgrader"], row["pending"]) for student, row in graded.rows.items()
    }
    assert scores == {
        "reference": (17, 17, 3),
        "m24": (16, 16, 3),
        "silent": (17, 17, 0),
    }
    assert all(row["flags"] == "" and row["max_score"] == 20 for row in graded.rows.values())
    assert BANK.ideas["unroll-teacher"]["sentence"] in graded.feedback("m24")


def test_the_rubric_and_the_notebook_agree_on_the_points_by_hand() -> None:
    rubric = (BANK.exercise.folder.parent.parent / "autograder/ex5/rubric.md").read_text()
    assert "3 points by hand" in rubric
    assert all(rubric.count(f"\n{n}. ") == 1 for n in (1, 2, 3))
    text = json.dumps(BANK.released())
    assert "read by your instructor" in text
    assert "ever more often" not in text  # of the reference's explanation


# -- what the checks themselves compute ----------------------------------------------------------------------


def test_the_rules_mask_is_the_published_one() -> None:
    drawn = ["".join(str(int(seen)) for seen in row) for row in rule.mask_rule([3], 2)]
    assert drawn == ["100100", "110010", "111001"]


def test_the_examples_by_hand_in_the_notebook_are_what_the_rule_gives() -> None:
    assert rule.positions_rule([3, 2], 1) == [1, 2, 3, 1, 2]
    assert rule.shift_rule([10, 20, 30, 40, 50], [3, 2], 1) == [20, 30, 0, 50, 0]
    flat = rule.flat_logits(2, 3, 2)
    batch = {"probs": [[0.3, 0.7], [0.2, 0.8], [1.0, 0.0]], "counted": [True] * 3, "lengths": [3]}
    assert round(rule.loss_of(flat, batch), 3) == 0.693
    flat[1][0] = [1.0986123, 0.0]
    assert round(rule.loss_of(flat, batch), 3) == 0.513


def test_the_rates_of_the_rule_are_what_sampled_chains_do() -> None:
    """Drafts from p, accepted with min(1, q / p): the rate at depth 2 among the chains that passed depth 1.

    q is the same everywhere; p is one of two at each depth, and the kind that does well at depth 1 does badly
    at depth 2. So a mean over all chains would be another number.
    """
    rng, q = random.Random(7), [0.5, 0.3, 0.2]
    p = [[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], [[0.5, 0.3, 0.2], [0.05, 0.05, 0.9]]]  # [depth, kind, token]
    passed = both = 0
    for _ in range(40_000):
        kind = rng.randrange(2)
        first, second = (rng.choices(range(3), p[depth][kind])[0] for depth in range(2))
        if rng.random() * p[0][kind][first] < q[first]:
            passed += 1
            both += rng.random() * p[1][kind][second] < q[second]
    texts = 4000  # of three tokens, drawn from q; the chains of their first rows are measured
    batch = {
        "tokens": [rng.choices(range(3), q)[0] for _ in range(3 * texts)],
        "probs": [q] * (3 * texts),
        "counted": [True] * (3 * texts),
        "lengths": [3] * texts,
    }
    logits = [
        [[math.log(x) for x in p[depth][text % 2]] for text in range(texts) for _ in range(3)]
        for depth in range(2)
    ]
    rates = rule.rates_of(logits, batch, rows_at=lambda k: [t % 3 == 0 for t in range(3 * texts)])
    slack = 4 * (0.25 / passed + 0.25 / texts) ** 0.5
    assert abs(rates[1] - both / passed) < slack
    assert abs(sum(rule.overlap(one, q) for one in p[1]) / 2 - both / passed) > slack


def test_the_reference_in_torch_agrees_with_the_notebook_and_with_differences() -> None:
    rng = random.Random(11)
    weights, batch = rule.some_weights(rng), rule.some_batch(rng, [4, 2, 3])
    names = BANK.names_of(BANK.solved())
    told = names["watched"](weights, batch, 3)
    assert rule.close(told["logits"], reference.unrolled(weights, batch, 3), 1e-4)
    gradient = reference.slope(weights, batch, 3)
    for name, (i, j) in {
        "mix": (1, 2),
        "embed": (batch["tokens"][1], 0),
        "out": (5, 1),
        "key": (0, 3),
    }.items():
        ends = []
        for by in (1e-5, -1e-5):
            moved = [list(row) for row in weights[name]]
            moved[i][j] += by
            ends.append(reference.loss({**weights, name: moved}, batch, 3))
        assert gradient[name][i][j] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("salt", ["one", "another", "a third"])
def test_other_hidden_inputs_give_the_same_verdicts(salt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (test_parts, test_loss, test_unroll, test_run):
        monkeypatch.setattr(module, "seeded", lambda seed: random.Random(f"{salt}:{seed}"))
    assert BANK.lost(BANK.solved()) == {}
    for name in random.Random(salt).sample(sorted(WRONG), 6):
        changes, expected = WRONG[name]
        assert BANK.lost(BANK.solved(**changes)) == expected, name


def test_no_check_depends_on_luck() -> None:
    """Answers of single precision lie far inside every slack: the same verdict with other hidden numbers."""
    names = BANK.names_of(BANK.solved())
    for seed in range(20):
        rng = random.Random(seed)
        weights, batch = rule.some_weights(rng), rule.some_batch(rng, [5, 3, 2])
        right = reference.measured(weights, batch, 3)
        assert rule.close(names["measured"](weights, batch, 3), right, 1e-5)
        got = names["trained"](weights, [batch, batch], 2, 0.02)
        want = reference.trained(weights, [batch, batch], 2, 0.02)
        ordered = {name: got[name] for name in want}
        off = sum((a - b) ** 2 for a, b in zip(rule.flat(ordered), rule.flat(want), strict=True)) ** 0.5
        way = sum((a - b) ** 2 for a, b in zip(rule.flat(want), rule.flat(weights), strict=True)) ** 0.5
        assert off < 0.002 * way  # the check allows 0.02


def test_the_experiment_shows_what_the_exercise_says() -> None:
    """A shorter run than the notebook's: without, depth 2 falls far below depth 1; with, it does not."""
    names = BANK.names_of(BANK.solved())
    for seed in (0, 1):
        verifier, lot = names["Verifier"](seed), random.Random(seed)
        batches = [verifier.write([lot.randint(6, 16) for _ in range(16)], i) for i in range(80)]
        held_out = verifier.write([lot.randint(6, 16) for _ in range(60)], 999)
        head = names["new_weights"](seed)
        rates = names["compare"](lambda head=head: names["Head"](head), batches, held_out, 3, 0.01)
        assert rates["without"][1] < 0.8 * rates["without"][0]
        assert rates["with"][1] > 1.3 * rates["without"][1]
