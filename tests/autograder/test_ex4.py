"""Exercise 4 on a bank of right and wrong solutions: hidden checks, visible checks, both graders."""

import importlib
import inspect
from pathlib import Path

import pytest
from bank import Bank
from ex4_solutions import CUTTING, RIGHT, WRONG, lengths
from grading import Graded, run_cli

from autograder.ex4 import rule

BANK = Bank("ex4")


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


def test_the_outcomes_that_the_visible_checks_know_are_those_of_the_rule() -> None:
    visible = BANK.visible()
    for case in (visible.TWO, visible.RAGGED, visible.ALONE):
        outcome = rule.compose(rule.RULE, rule.Case(case["prompts"], case["rounds"]))
        assert outcome.sequences == case["sequences"]
        assert {name: outcome.cache[name] for name in rule.COUNTS} == {
            name: case[name] for name in rule.COUNTS
        }
        assert outcome.work == case["work"]


@pytest.mark.parametrize("style", RIGHT)
def test_right_work_in_any_style_gets_full_marks(style: str) -> None:
    notebook = BANK.solved(**RIGHT[style])
    assert BANK.lost(notebook) == {}
    assert BANK.told(notebook) == {}


def test_the_visible_checks_need_the_standard_library_alone(tmp_path: Path) -> None:
    assert BANK.told_alone(tmp_path, BANK.solved()) == {}
    told = BANK.told_alone(tmp_path, BANK.solved(**WRONG["M20, the bonus too"][0]))
    assert set(told) == {"rollback-lengths"}
    assert told["rollback-lengths"].startswith("Not yet (the correction is not cached): ")
    assert "|" not in told["rollback-lengths"]  # one line: no traceback frames


def test_wrong_ideas_in_several_parts_lose_the_points_of_each() -> None:
    parts = ("M22, everything is computed anew", "all lengths grow alike", "M20, the bonus too")
    changes = {cell: source for name in parts for cell, source in WRONG[name][0].items()}
    missing = BANK.lost(BANK.solved(**changes))
    assert set(missing) == {"rows-new", "write-length", "rollback-lengths"}


def test_a_half_finished_notebook_gets_what_it_earned() -> None:
    cells = {f"{name}_code": BANK.solutions[f"{name}-code"] for name in ("new", "rows", "write")}
    missing = BANK.lost(BANK.half(**cells))
    assert {name.split("-")[0] for name in missing} == {"rollback", "two", "simulate"}
    assert set(missing.values()) == {"not-written"}
    assert BANK.lost(BANK.half(**CUTTING)).keys() == BANK.points.keys() - {
        name for name in BANK.points if name.startswith("rollback")
    }


def test_a_simulation_that_waits_for_an_earlier_part_is_pending_not_lost() -> None:
    missing = BANK.lost(BANK.solved(rollback_code="def rollback(cache, drafted, accepted):\n    pass"))
    assert {idea for name, idea in missing.items() if name.startswith("rollback")} == {"shape"}
    assert {idea for name, idea in missing.items() if not name.startswith("rollback")} == {"blocked"}
    assert len(missing) == 8


@pytest.mark.parametrize("module", ["ledger", "kv_cache", "slots", "theory.simulate"])
def test_pasting_the_library_earns_less_than_two_fifths(module: str) -> None:
    """Each public name of the module that does the same for tensors, under every name that is asked for."""
    library = importlib.import_module(f"specdec.{module}")
    public = [
        name
        for name, value in vars(library).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", "") == library.__name__
    ]
    assert public
    for name in public:
        paste = "".join(f"{part} = {name}\n" for part in rule.PARTS)
        if inspect.isclass(getattr(library, name)):
            methods = ("start", "write", "accept", "rollback", "keep", "wait")
            paste += "".join(f"{m} = getattr({name}, {m!r}, {name})\n" for m in methods if m in rule.PARTS)
        cells = dict.fromkeys(("rows_code", "write_code", "rollback_code", "simulate_code"), "")
        source = f"from specdec.{module} import {name}\n{paste}"
        missing = BANK.lost(BANK.solved(new_code=source, **cells))
        earned = sum(points for check, points in BANK.points.items() if check not in missing)
        assert earned < 0.4 * sum(BANK.points.values()), name


@pytest.mark.sandbox
def test_both_graders_agree(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, out = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out")
    handed_in = {
        "reference": BANK.solved(),
        "empty": BANK.released(),
        "m19": BANK.solved(**WRONG["M19, the shortest length for all"][0]),
        "written-out": BANK.solved(**RIGHT["a simulation with everything written out inside, and stderr"]),
        "shared": BANK.solved(**WRONG["sequences that share a list"][0]),
    }
    for student, notebook in handed_in.items():
        BANK.hand_in(folder, student, notebook)
    graded = Graded(out, run_cli("grade", folder, "--out", out, "--exercise", "ex4"))
    scores = {
        student: (row["score"], row["nbgrader"], row["pending"]) for student, row in graded.rows.items()
    }
    assert scores == {
        "reference": (20, 20, 0),
        "empty": (0, 0, 0),
        "m19": (17, 17, 0),
        "written-out": (20, 20, 0),
        "shared": (16, 16, 3),
    }
    assert all(row["flags"] == "" for row in graded.rows.values())
    assert BANK.ideas["rollback-shared"]["sentence"] in graded.feedback("m19")


# -- what the checks themselves compute ----------------------------------------------------------------------


def fresh_pass(tokens: list[int], count: int) -> list[int]:
    """Keys of the first tokens of a sequence, as one pass would give them."""
    return [100 * token + position for position, token in enumerate(tokens[:count])]


def test_the_rule_keeps_the_invariants_of_the_course() -> None:
    """cached = tokens - 1, contents of a fresh pass, computed = length + discarded, no row twice."""
    rng = rule.random.Random(1)
    for _ in range(50):
        case = rule.any_batch(rng)
        outcome = rule.compose(rule.RULE, case)
        cache = outcome.cache
        for b, tokens in enumerate(outcome.sequences):
            length = cache["length"][b]
            drafted = sum(len(one["drafts"][b]) for one in case.rounds)
            accepted = sum(one["accepted"][b] for one in case.rounds)
            assert length == len(tokens) - 1 == len(case.prompts[b]) + accepted + len(case.rounds) - 1
            assert cache["keys"][b][:length] == fresh_pass(tokens, length)
            assert cache["values"][b][:length] == [-key for key in fresh_pass(tokens, length)]
            assert cache["discarded"][b] == drafted - accepted
            assert (
                cache["computed"][b] == length + drafted - accepted == sum(work[b] for work in outcome.work)
            )


def test_in_every_case_of_two_the_lengths_differ() -> None:
    rng = rule.random.Random(2)
    for rounds in (1, 2, 3):
        case = rule.two_sequences(rng, rounds)
        assert [one["accepted"] for one in case.rounds] == [[len(one["drafts"][0]), 1] for one in case.rounds]
        grown = [
            len(t) - len(p)
            for t, p in zip(rule.compose(rule.RULE, case).sequences, case.prompts, strict=True)
        ]
        assert grown[0] >= 4 * rounds > grown[1] == 2 * rounds


def test_a_right_rollback_is_told_nothing_about_its_lengths() -> None:
    right = lengths("""
    for b, (had, kept) in enumerate(zip(drafted, accepted)):
        cache["length"][b] -= had - kept
""")
    assert BANK.lost(BANK.solved(**right)) == {}
