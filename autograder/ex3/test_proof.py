"""Checks of task 6: the exact law of "the best of the accepted paths wins", and a case where it is not q."""

import random
from functools import cache

import pytest

from autograder.ex3.rule import Row, ask, best_law_rule, near, number, row, total_variation, vector
from autograder.process import Died
from autograder.student import Missed, NoAnswer, Student

LEAST = 0.1  # how far from q the case must be, in total variation


@cache
def pairs() -> list[tuple[Row, Row]]:
    """Rows over 2 to 5 tokens; in some the verifier never says a token, and in one the draft is perfect."""
    rng = random.Random(341)
    result: list[tuple[Row, Row]] = []
    while len(result) < 7:
        size = rng.randint(2, 5)
        q, p = row(rng, size), row(rng, size)
        if len(result) > 4:
            q[0], q[1] = q[0] + q[1], 0.0
        if len(set(q)) == size:  # of two equally likely tokens either may win
            result.append((q, p))
    return [*result, (result[0][0], list(result[0][0]))]


@pytest.mark.check("best-law", points=2)
def test_the_law_of_the_best_accepted_path_is_added_up(student: Student) -> None:
    got = [vector(ask(student, "best_path_law", q, p), len(q)) for q, p in pairs()]
    if all(near(law, best_law_rule(q, p)) for law, (q, p) in zip(got, pairs(), strict=True)):
        return
    named = {
        "best-law-replaced": [best_law_rule(q, p, replaced=True) for q, p in pairs()],
        "best-law-plain": [best_law_rule(q, p, plain=True) for q, p in pairs()],
        "best-law-lossless": [q for q, _ in pairs()],
    }
    idea = (name for name, laws in named.items() if all(map(near, got, laws)))
    raise Missed(next(idea, "best-law"), f"{got}")


@pytest.mark.check("proof", points=1)
def test_the_proof_is_a_case_whose_law_is_not_q(student: Student) -> None:
    proof = student.get("proof")
    if type(proof) is not dict or not {"q", "p", "law", "distance"} <= set(proof):
        raise Missed("shape", f"proof is {proof!r:.200}")
    if all(value is None for value in proof.values()):
        raise NoAnswer("not-written", "None", "", [])
    size = len(proof["q"]) if type(proof["q"]) is list else 0
    q, p, law = (vector(proof[name], size) for name in ("q", "p", "law"))
    if not 3 <= size <= 50 or any(min(x) < 0 or abs(sum(x) - 1) > 1e-5 for x in (q, p)):
        raise Missed("proof", f"q = {q} and p = {p} are not two distributions")
    if max(p) > 1 - 1e-6 or not same_law(student, q, p, law):
        raise Missed("proof", f"{law} is not the law of q = {q}, p = {p}")
    distance = number(proof["distance"])
    if abs(distance - total_variation(law, q)) > 1e-4:
        raise Missed("proof-distance", f"{distance} is not the distance between {law} and {q}")
    if distance < LEAST:
        raise Missed("proof-small", f"{distance} is less than {LEAST}")


def same_law(student: Student, q: Row, p: Row, law: Row) -> bool:
    """Is it the law of the rule, or of the student's own best_path_law?"""
    if near(law, best_law_rule(q, p)):
        return True
    try:
        return near(law, vector(student.call("best_path_law", q, p), len(q)))
    except (NoAnswer, Missed, Died):
        return False
