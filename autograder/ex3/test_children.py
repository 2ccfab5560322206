"""Checks of task 2: one row of children (see rule.py for its readings)."""

import pytest

from autograder.ex3.rule import (
    READINGS,
    RIGHT,
    TOLERANCE,
    Decision,
    Node,
    Reading,
    Row,
    ask,
    bare,
    decision,
    level,
    near,
    normalised,
    owed_after_all,
    proportional,
    residual_rule,
    sampled_rows,
    top_rows,
)
from autograder.student import Missed, Student

NAMED = {
    "same": "child-sibling",
    "clamped": "child-clamped",
    "without": "child-zeroed",
    "p/q": "child-inverted",
    "q": "child-ignores-draft",
}


def answers_to(student: Student, rows: list[Node]) -> list[Decision]:
    return [decision(ask(student, "choose_child", node), node) for node in rows]


def consistent(answers: list[Decision]) -> list[Reading]:
    """The readings that explain every index that came back for the sampled rows."""
    return [
        how
        for how in READINGS
        if all(level(node, how)[0] == index for node, (index, _) in zip(sampled_rows(), answers, strict=True))
    ]


@pytest.mark.check("child-first", points=1)
def test_the_first_child_is_kept_for_a_share_of_q_over_p(student: Student) -> None:
    answers = answers_to(student, sampled_rows())
    wrong = {
        accept: sum(
            (index == 0) != (level(node, Reading(accept=accept))[0] == 0)
            for node, (index, _) in zip(sampled_rows(), answers, strict=True)
        )
        for accept in ("q/p", "p/q", "q")
    }
    if wrong["q/p"]:
        raise Missed(next((NAMED[a] for a in ("p/q", "q") if not wrong[a]), "child-first"), f"{wrong}")
    # the coin 0 must not keep a token that the verifier never says
    never = bare(0, [0.5, 0.0, 0.5], [0.25, 0.5, 0.25])
    never["children"].append(bare(1, [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]) | {"coin": 0.0})
    if decision(ask(student, "choose_child", never), never)[0] is not None:
        raise Missed("child-strict", "u = 0 kept a token with q = 0")


@pytest.mark.check("child-sibling", points=2)
def test_the_next_sibling_is_checked_against_what_is_still_owed(student: Student) -> None:
    known = consistent(answers_to(student, sampled_rows()))
    if not any(how.owed == "residual" for how in known):
        raise Missed(NAMED[known[0].owed] if known else "child-sibling", f"{known}")


@pytest.mark.check("child-renormalised", points=1)
def test_the_next_sibling_is_checked_with_what_it_was_drawn_from(student: Student) -> None:
    known = consistent(answers_to(student, sampled_rows()))
    if not any(how.p == "renormalised" for how in known):
        raise Missed("child-renormalised", f"{known}")


@pytest.mark.check("child-owed", points=1)
def test_what_is_owed_after_the_last_rejection_comes_back(student: Student) -> None:
    answers = answers_to(student, sampled_rows())
    known = consistent(answers) or [RIGHT]
    wrong = owed_wrong(answers, known)
    if wrong:
        raise Missed(wrong[0], wrong[1])
    for node in sampled_rows()[:4]:
        leaf = node | {"children": []}
        index, owed = decision(ask(student, "choose_child", leaf), leaf)
        if index is not None or not near(owed, leaf["q"]):
            raise Missed("child-leaf", f"{(index, owed)} at a leaf")


def owed_wrong(answers: list[Decision], known: list[Reading]) -> tuple[str, str] | None:
    """The idea missed in what came back as owed by the sampled rows, given the own reading of siblings."""
    rejected = [
        (node, owed) for node, (index, owed) in zip(sampled_rows(), answers, strict=True) if index is None
    ]
    if not rejected:
        return "child-owed", "no row was rejected"
    if any(all(fits(owed, owed_by(node, how), how) for node, owed in rejected) for how in (*known, RIGHT)):
        return None
    if any(
        all(any(fits(owed, one, how) for one in owed_by_same_q(node)) for node, owed in rejected)
        for how in known
        if how.owed == "same"
    ):
        return None
    last = all(near(owed, node["q"]) for node, owed in rejected if len(node["children"]) == 1)
    return ("child-last" if last else "child-owed"), f"{rejected[0]}"


def owed_by(node: Node, how: Reading) -> Row:
    """What a reading owes after all children were rejected; nothing where it never updates q."""
    return [] if how.owed == "same" else owed_after_all(node, how)


def owed_by_same_q(node: Node) -> list[Row]:
    """What somebody may return who checks all siblings against the same q: one residual, of whichever p."""
    rests = [list(node["p"])]
    for child in node["children"]:
        rests.append([0.0 if t == child["token"] else v for t, v in enumerate(rests[-1])])
    ps = [p for rest in rests[:-1] for p in (rest, normalised(rest))]
    return [residual_rule(node["q"], p) for p in ps]


def fits(owed: Row, expected: Row, how: Reading) -> bool:
    """A missing normalisation costs the points of the siblings."""
    if not expected:
        return False
    return proportional(owed, expected) if how.owed == "clamped" else near(owed, expected, TOLERANCE)


@pytest.mark.check("child-top", points=2)
def test_top_k_children_are_checked_with_a_one_hot_p(student: Student) -> None:
    answers = answers_to(student, top_rows())
    sampled = answers_to(student, sampled_rows())
    known = [how for how in READINGS if how == RIGHT or how in consistent(sampled)]
    for how in known:
        if all(level(node, how)[0] == index for node, (index, _) in zip(top_rows(), answers, strict=True)):
            break
    else:
        softmax = any(
            all(
                level(node | {"drawn": "sampled"}, other)[0] == index
                for node, (index, _) in zip(top_rows(), answers, strict=True)
            )
            for other in READINGS
        )
        raise Missed("child-softmax" if softmax else "child-top", f"{answers}")
    if how.owed == "same" or owed_wrong(sampled, consistent(sampled) or [RIGHT]):
        return  # what is owed is wrong for sampled children too, and has lost its points there
    for node, (index, owed) in zip(top_rows(), answers, strict=True):
        if index is None and not any(fits(owed, owed_after_all(node, one), one) for one in (how, RIGHT)):
            raise Missed("child-top-owed", f"{owed} after {node}")
