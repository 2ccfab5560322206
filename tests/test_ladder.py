"""`specdec bench ladder`: the order of the runs, what the rows say, equality, the commands, bad input."""

import json
from itertools import groupby

import pytest
from test_cli import one_sentence
from tiny_heads import tiny_eagle1, tiny_eagle3
from tiny_verifier import tiny_verifier

from specdec import cli, ladder
from specdec.bench_prompts import HELD_OUT, Prompt, evenly, held_out, public_prompts
from specdec.compete import resume
from specdec.drafts.features import FeatureDraft
from specdec.drafts.ngram import NgramDraft
from specdec.errors import SpecdecError
from specdec.ladder import CURVE, PLAIN, Plan, Turn, climb, key_of
from specdec.ladder_report import describe, draw, spaced
from specdec.ladder_summary import alpha_by_depth, summarise
from specdec.policy import chain, dynamic
from specdec.rungs import Rung

pytestmark = pytest.mark.usefixtures("one_thread")

CHAIN = Rung("eagle3", "eagle3", chain(2), False)
TREE = Rung("eagle3", "eagle3", dynamic(2, 2, 3), True)
PROMPTS = [Prompt("talk", "81", "a"), Prompt("talk", "82", "b"), Prompt("sum", "1", "c")]
TOKENS = [[1, 2, 3, 4, 1, 2, 3], [5, 6, 7, 5, 6], [9, 8, 7]]


def plan(
    rungs, wanted=((0.0, 1.0), (0.0,), (0.0, 1.0)), precision="fp32", prompts=PROMPTS, tokens=20, **more
):
    at = {(precision, t): rungs for t in (0.0, 1.0)}
    return Plan(prompts, TOKENS[: len(prompts)], wanted, at, tokens, (), 0, **more)


# -- the order of the runs ---------------------------------------------------------------------------------


def test_plain_decoding_is_on_both_sides_of_every_few_rungs_and_each_prompt_begins_with_another_one():
    names = [f"r{i} chain(1)" for i in range(5)]
    turns = plan([Rung(name.split()[0], "h", chain(1), True) for name in names]).turns("fp32")
    blocks = {key: list(block) for key, block in groupby(turns, key=lambda t: (t.prompt, t.temperature))}
    assert list(blocks) == [(0, None), (0, 0), (0, 1), (1, None), (1, 0), (2, None), (2, 0), (2, 1)]
    assert [t.method for t in blocks[0, None]] == [CURVE]
    expected = [PLAIN, *names[:3], PLAIN, *names[3:], PLAIN]
    assert [t.method for t in blocks[0, 0]] == expected
    assert [t.group for t in blocks[0, 0]] == [0, 0, 0, 0, 1, 1, 1, 2]
    assert [t.method for t in blocks[1, 0]] == [PLAIN, *names[1:4], PLAIN, names[4], names[0], PLAIN]
    assert len(set(turns)) == len(turns)


def test_one_rung_alone_is_between_two_plain_runs():
    turns = plan([CHAIN], wanted=[(0.0,)], prompts=PROMPTS[:1]).turns("fp32")
    assert [turn.method for turn in turns] == [CURVE, PLAIN, CHAIN.name, PLAIN]


# -- what the rows say, by hand ----------------------------------------------------------------------------


def curve(prompt, ms, precision="bf16"):
    turn = Turn(precision, prompt, None, CURVE)
    return {"kind": "curve", **turn._asdict(), "context": 9, "widths": [1, 2, 4], "ms": ms}


def run(prompt, method, group, tokens, seconds, rounds=(), draft=0.0, temperature=0.0, precision="bf16"):
    turn = Turn(precision, prompt, temperature, method, group)
    stages = {"draft": draft, "verify": seconds - draft, "accept": 0.0, "rollback": 0.0}
    more = {"tokens": tokens, "seconds": seconds, "prefill_seconds": 0.5, "stages": stages}
    return {"kind": "run", **turn._asdict(), **more, "rounds": list(rounds)}


SIX = [1, 2, 3, 4, 5, 6]
RECORD = [
    curve(0, [10.0, 12.0, 20.0]),
    run(0, PLAIN, 0, SIX, 0.20),
    # Three of three, none, one of two: 3 + 1 + 2 tokens in 3 calls, 30 ms of drafting.
    run(0, CHAIN.name, 0, SIX, 0.12, [[2, 3, [0, 0]], [2, 1, [-1]], [2, 2, [0, -1]]], draft=0.03),
    run(0, TREE.name, 0, SIX, 0.16, [[3, 3, [1, 0]], [3, 3, [0, 1]]], draft=0.04),
    run(0, PLAIN, 1, SIX, 0.28),
]


def test_tau_alpha_cost_bound_and_speedup_are_those_counted_by_hand():
    rows = summarise(RECORD, plan([CHAIN, TREE], [(0.0,)], "bf16", PROMPTS[:1]))
    found, tree = rows
    assert (found["family"], found["policy"], found["prompt_set"]) == ("eagle3", "chain(2)", "talk")
    assert found["tau"] == 2  # 6 / 3
    assert found["alpha_by_depth"] == [0.6667, 0.5]  # 2 of 3; of the two that came further, 1
    assert found["tried_by_depth"] == [3, 2]
    assert found["alpha"] == 0.6  # 3 accepted of 5 that were tried
    assert found["V"] == {"widths": [1, 2, 4], "ms": [10, 12, 20], "V": [1, 1.2, 2]}
    assert (found["D"], found["c"]) == (1.0, 0.5)  # 10 ms a round, two passes
    assert found["verify"] == 1.6  # V(3), between V(2) and V(4)
    assert found["bound"] == pytest.approx(2 / (1 + 1.6), abs=1e-4)
    assert found["tokens_per_second"] == 50
    assert found["plain_tokens_per_second"] == 25  # 6 in 0.24 s, the mean of the runs before and behind
    assert found["speedup"] == 2
    assert found["share"] == pytest.approx(2 * 2.6 / 2, abs=1e-3)
    assert (found["identical"], found["first_difference"]) == (1, [None])
    # The tree: 6 tokens in 2 calls of 4 rows; its alphas are the chain's, what it accepted its own.
    assert (tree["tau"], tree["D"], tree["verify"]) == (3, 2, 2)
    assert tree["bound"] == 0.75
    assert tree["speedup"] == 1.5
    assert (tree["alpha_by_depth"], tree["alpha_policy"]) == ([0.6667, 0.5], "chain(2)")
    assert tree["accepted_by_depth"] == [1, 1]
    assert {"precision", "temperature"} <= found.keys()


def test_the_mean_over_sets_counts_every_set_alike():
    """tau 2 over one prompt of one set, 1 over two of the other: 1.5."""
    lines = [*RECORD[:3], RECORD[4]]
    lines = [line | {"prompt": 2} for line in lines]
    for prompt in (0, 1):
        lines += [curve(prompt, [10.0, 12.0, 20.0]), run(prompt, PLAIN, 0, [1, 2], 0.02)]
        rounds = [[2, 1, [-1]], [2, 1, [-1]]]
        lines += [run(prompt, CHAIN.name, 0, [1, 9], 0.04, rounds, 0.01), run(prompt, PLAIN, 1, [1, 2], 0.02)]
    found = summarise(lines, plan([CHAIN], [(0.0,)] * 3, "bf16"))
    assert [(row["prompt_set"], row["tau"], row["prompts"]) for row in found] == [
        ("talk", 1, 2),
        ("sum", 2, 1),
        ("mean", 1.5, 3),
    ]
    assert [row["speedup"] for row in found] == [0.5, 2, 1.25]
    assert found[2]["alpha_by_depth"] == [0.3333, 0.5]  # no walk of the first set came to the second depth
    assert found[2]["tried_by_depth"] == [7, 2]
    assert found[0]["first_difference"] == [1, 1]
    assert found[2]["identical"] == 0.3333
    assert found[2]["share"] == pytest.approx(found[2]["speedup"] / found[2]["bound"], abs=1e-4)


def test_acceptance_behind_the_end_of_a_text_is_not_counted():
    """The walk went two steps, but the text ended with its first token."""
    record = [line | {} for line in RECORD]
    record[2] = record[2] | {"rounds": [[2, 1, [0, 0]]], "tokens": [1]}
    found, _ = summarise(record, plan([CHAIN, TREE], [(0.0,)], "bf16", PROMPTS[:1]))
    assert (found["alpha_by_depth"], found["tau"]) == ([1.0], 1)


def test_without_drafts_there_is_no_alpha():
    assert alpha_by_depth([[], []]) == []
    record = [line | {} for line in RECORD]
    record[2] = record[2] | {"rounds": [[0, 1, []]], "tokens": [1]}
    found, _ = summarise(record, plan([CHAIN, TREE], [(0.0,)], "bf16", PROMPTS[:1]))
    assert (found["alpha_by_depth"], found["alpha"], found["verify"]) == ([], None, 1)


# -- real runs on a tiny verifier --------------------------------------------------------------------------

RUNGS = [
    Rung("ngram", "ngram", chain(4), True),
    Rung("eagle1", "eagle1", chain(3), False),
    Rung("eagle2", "eagle1", dynamic(2, 2, 4), True),
    Rung("eagle3", "eagle3", dynamic(3, 2, 5), True),
]


@pytest.fixture(scope="module")
def tiny():
    verifier = tiny_verifier()
    heads = {"eagle1": tiny_eagle1(verifier), "eagle3": tiny_eagle3(verifier)}
    return verifier, {"ngram": NgramDraft(), **{name: FeatureDraft(head) for name, head in heads.items()}}


def of_time(key):
    return key in ("seconds", "prefill_seconds", "stages", "ms")


def without_times(lines):
    return [{key: value for key, value in line.items() if not of_time(key)} for line in lines]


@pytest.fixture(scope="module")
def climbed(tiny, tmp_path_factory):
    part = tmp_path_factory.mktemp("ladder") / "l.part.jsonl"
    resume(part, {})
    lines = list(climb(plan(RUNGS), "fp32", *tiny, part, []))
    assert resume(part, {}) == lines
    return lines


def test_the_ladder_runs_every_turn_and_greedy_texts_are_plain_ones(climbed):
    at = plan(RUNGS)
    assert [key_of(line) for line in climbed if line["kind"] != "check"] == at.turns("fp32")
    rows = summarise(climbed, at)
    assert len(rows) == 2 * len(RUNGS) * 3  # two temperatures, two sets and their mean
    for row in rows:
        assert row["tokens"] == 20 * row["prompts"]
        assert (
            row["tau"] == pytest.approx(row["tokens"] / row["rounds"], abs=1e-4)
            or row["prompt_set"] == "mean"
        )
        assert row["tau"] >= 1
        assert row["speedup"] > 0 < row["bound"]
        assert ("identical" in row) == (row["temperature"] == 0)
        assert row.get("identical", 1) == 1
        assert row.get("differing", []) == []
    assert max(row["tau"] for row in rows) > 1.5  # a tiny model repeats itself, and prompt lookup sees it


@pytest.mark.parametrize("after", [0, 7])
def test_an_interrupted_ladder_goes_on_to_the_same_lines(tiny, climbed, tmp_path, after):
    part = tmp_path / "l.part.jsonl"
    resume(part, {"seed": 0})
    running = climb(plan(RUNGS), "fp32", *tiny, part, [])
    for _ in range(after):
        next(running)
    running.close()
    with part.open("a") as file:
        file.write('{"kind": "run", "prec')  # it was killed within a line
    before = resume(part, {"seed": 0})
    assert len(before) == after
    told = []
    more = list(climb(plan(RUNGS), "fp32", *tiny, part, before, told.append))
    assert without_times(before + more) == without_times(climbed)
    assert [key_of(line) for line in more if line["kind"] != "check"] == told
    assert list(climb(plan(RUNGS), "fp32", *tiny, part, resume(part, {"seed": 0}))) == []


def test_a_text_that_is_not_the_plain_one_is_found_and_listed(tiny, climbed):
    """One token of one drafted text is changed, as a wrong rollback might."""
    at, verifier = plan(RUNGS), tiny[0]
    texts = {key_of(line): line["tokens"] for line in climbed if line["kind"] == "run"}
    turn = next(t for t in texts if t.method == RUNGS[3].name and t.temperature == 0 and t.prompt == 1)
    assert ladder.check(at, turn, verifier, texts) is None
    wrong = [*texts[turn][:5], (texts[turn][5] + 1) % 16, *texts[turn][6:]]
    found = ladder.check(at, turn, verifier, texts | {turn: wrong})
    assert (found["identical"], found["first_difference"]) == (False, 5)
    lines = [line | {"tokens": wrong} if key_of(line) == turn else line for line in climbed] + [found]
    rows = [r for r in summarise(lines, at) if r["temperature"] == 0 and r["family"] == "eagle3"]
    assert [row["identical"] for row in rows] == [0.5, 1, 0.6667]
    assert rows[0]["differing"] == rows[2]["differing"] == [{"prompt": "82", "position": 5}]


# -- prompts -----------------------------------------------------------------------------------------------


def test_held_out_prompts_are_in_no_training_and_those_to_choose_on_in_no_measurement():
    from specdec.train.prompts import make_prompts

    measured, chosen_on = held_out(30), held_out(30, part=1)
    assert {prompt.set for prompt in measured} == {HELD_OUT}
    texts = {prompt.text for prompt in measured} | {prompt.text for prompt in chosen_on}
    assert len(texts) == 60
    assert not texts & {prompt.text for prompt in make_prompts(6000, seed=0)}
    assert measured == held_out(30)


def test_prompts_of_public_sets_are_the_five_in_order_and_evenly_spaced(tmp_path):
    for name in ("sum", "poems", "mt_bench", "humaneval", "gsm8k", "alpaca"):
        lines = [json.dumps({"question_id": i, "turns": [f"{name} {i}?"]}) for i in range(10)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    found = public_prompts(tmp_path, [])
    assert list(dict.fromkeys(p.set for p in found)) == ["mt_bench", "humaneval", "gsm8k", "alpaca", "sum"]
    assert [p.id for p in evenly(found, 4) if p.set == "sum"] == ["0", "2", "5", "7"]
    assert [p.set for p in evenly(public_prompts(tmp_path, ["poems"]), 50)] == ["poems"] * 10
    with pytest.raises(SpecdecError, match="has no set 'songs'"):
        public_prompts(tmp_path, ["sum", "songs"])
    for name in ("mt_bench", "humaneval", "gsm8k", "alpaca", "sum"):
        (tmp_path / f"{name}.jsonl").unlink()
    assert {p.set for p in public_prompts(tmp_path, [])} == {"poems"}


# -- the plot ----------------------------------------------------------------------------------------------


def test_the_plot_is_drawn_with_its_words_inside(climbed, tmp_path):
    result = {"rows": summarise(climbed, plan(RUNGS)), "sets": ["talk", "sum"]}
    words = describe(result)
    for file in (tmp_path / "l.svg", tmp_path / "l.png"):
        draw(result, file)
        assert file.stat().st_size > 5000
    assert words.split(".")[0] in (tmp_path / "l.svg").read_text().replace("&gt;", ">")
    mean = next(r for r in result["rows"] if r["family"] == "ngram" and r["prompt_set"] == "mean")
    assert f"ngram {mean['speedup']:.2f} times as fast with tau {mean['tau']:.2f}" in words


def test_labels_that_are_too_near_are_moved_apart_around_their_middle():
    assert spaced([0.5, 0.1], 0.2) == [0.5, 0.1]
    assert spaced([0.5, 0.5], 0.2) == pytest.approx([0.4, 0.6])


# -- the commands ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["ladder", "--families", "warp"], "there is no family 'warp': the families are ngram, vanilla"),
        (["ladder", "--families", "ngram", "--prompt-dir", "no/such"], "there is no folder no/such"),
        (["ladder", "--families", "ngram", "--sets", "poems"], "'poems': choose from held-out"),
        (["ladder", "--families", "ngram", "--temperatures", "hot"], "--temperatures are 'hot', but must be"),
        (["ladder", "--families", "ngram", "--temperatures", "-1"], "numbers of at least 0, as in 0,1"),
        (
            ["ladder", "--families", "ngram", "--precision", "fp8"],
            "no precision 'fp8': choose from fp32, bf16",
        ),
        (["ladder", "--families", "ngram", "--per-set", "0"], "'--per-set': 0 is below 1"),
        (["ladder", "--families", "ngram", "--out", "x.txt"], "--out must end in .json"),
        (["ladder", "--families", "ngram", "--plot", "x.gif"], "--plot draws .png or .svg"),
        (["ladder", "--heads", "no/such"], "there is no folder no/such: --heads is a folder"),
        (
            ["ladder", "--families", "ngram", "--check", "--temperatures", "1"],
            "--check compares greedy texts",
        ),
        (["policies", "--families", "warp"], "there is no family 'warp'"),
        (["policies", "--families", "ngram", "--prompts", "0"], "'--prompts': 0 is below 1"),
        (["policies", "--families", "ngram", "--out", "no/such/x.json"], "cannot write no/such/x.json"),
    ],
)
def test_bad_input_gets_one_sentence_and_status_two(capsys, args, sentence):
    assert cli.main(["bench", *args]) == 2
    captured = capsys.readouterr()
    assert sentence in one_sentence(captured.err)
    assert captured.out == ""


@pytest.mark.weights
def test_the_ladder_writes_rows_table_and_plot_and_takes_the_part_file_away(capsys, tmp_path):
    for name in ("talk", "list"):
        lines = [json.dumps({"question_id": i, "turns": [f"Name {i} colours."]}) for i in (2, 3)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    out, plot = tmp_path / "l.json", tmp_path / "l.svg"
    args = [
        "bench",
        "ladder",
        "--families",
        "ngram",
        "--prompt-dir",
        str(tmp_path),
        "--threads",
        "1",
        "--check",
    ]
    args += ["--max-new-tokens", "5", "--out", str(out), "--plot", str(plot)]
    assert cli.main(args) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("ngram", "bf16, temperature 1", "token for token", str(out)))
    result = json.loads(out.read_text())
    assert {"machine", "commit", "date", "seed", "threads", "policies", "prompt_list"} <= set(result)
    assert result["prompts"] == tmp_path.name
    keys = ("precision", "temperature", "prompt_set", "prompts")
    expected = [("bf16", 0, n) for n in (2, 2, 4)] + [("bf16", 1, n) for n in (1, 1, 2)]
    expected += [("fp32", 0, n) for n in (2, 2, 4)]
    sets = ("list", "talk", "mean") * 3
    assert [tuple(row[key] for key in keys) for row in result["rows"]] == [
        (p, t, name, n) for (p, t, n), name in zip(expected, sets, strict=True)
    ]
    for row in result["rows"]:
        assert {"family", "policy", "tau", "alpha_by_depth", "c", "speedup", "bound"} <= row.keys()
        assert {"tokens_per_second", "plain_tokens_per_second"} <= row.keys()
        assert row["precision"] != "fp32" or (row["identical"], row["differing"]) == (1, [])
        assert row["precision"] != "bf16" or row["temperature"] or row["agreement"] > 0.8
    assert plot.read_text().startswith("<?xml")
    assert not (tmp_path / "l.part.jsonl").exists()


@pytest.mark.weights
def test_without_a_folder_the_source_is_named_and_the_rows_say_held_out(capsys, tmp_path):
    args = [
        "bench",
        "ladder",
        "--families",
        "ngram",
        "--per-set",
        "1",
        "--threads",
        "1",
        "--temperatures",
        "0",
    ]
    assert cli.main([*args, "--max-new-tokens", "3", "--out", str(tmp_path / "l.json"), "--json"]) == 0
    captured = capsys.readouterr()
    first = captured.err.splitlines()[0]
    assert "github.com/SafeAILab/EAGLE" in first
    assert '"turns": ["the question"]' in first
    assert [row["prompt_set"] for row in json.loads(captured.out)["rows"]] == [HELD_OUT]


@pytest.mark.weights
def test_policies_chooses_the_best_of_its_table(capsys, tmp_path):
    out = tmp_path / "p.json"
    args = ["bench", "policies", "--families", "ngram", "--prompts", "1", "--temperatures", "0"]
    assert cli.main([*args, "--max-new-tokens", "6", "--threads", "1", "--out", str(out), "--write"]) == 0
    result = json.loads(out.read_text())
    assert [row["policy"] for row in result["rows"]] == [f"chain({n})" for n in (1, 2, 3, 4, 5, 6, 8)]
    (chosen,) = result["chosen"]
    assert chosen["bound"] == max(row["bound"] for row in result["rows"])
    assert chosen["policy"] in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
