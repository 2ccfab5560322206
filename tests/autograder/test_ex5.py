"""Exercise 5 on a bank of right and wrong solutions: hidden checks, visible checks, both graders."""

import pytest
from bank import Bank
from ex5_solutions import WRONG

BANK = Bank("ex5")


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
