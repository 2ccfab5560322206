"""Builds submissions of exercise 1 out of the reference solution and small changes to it."""

import copy
import json
from pathlib import Path
from typing import Any

from autograder.exercises import ROOT, find_exercise

EXERCISE = find_exercise("ex1")
NAME = EXERCISE.name
RELEASED = ROOT / "notebooks" / NAME / f"{NAME}.ipynb"

# One wrong idea each, as a student would write it; everything else is the reference solution.
RESIDUAL_UNCLAMPED = """
def residual(q, p):
    raw = [q_t - p_t for q_t, p_t in zip(q, p)]
    total = sum(value for value in raw if value > 0)
    return [value / total for value in raw] if total > 0 else list(q)
"""
RESIDUAL_UNNORMALISED = """
def residual(q, p):
    owed = [max(0.0, q_t - p_t) for q_t, p_t in zip(q, p)]
    return owed if sum(owed) > 0 else list(q)
"""
ACCEPT_INVERTED = """
def accept(q_x, p_x, u):
    return u < p_x / q_x
"""
STEP = """
def speculative_step(q, p, last, coins):
    n = len(coins) // 2
    drafts, token = [], last
    for u in coins[:n]:
        token = {draft}
        drafts.append(token)
    before = last
    for i, token in enumerate(drafts):
        if not accept(q[before][token], p[before][token], coins[n + i]):
            correction = draw({correction}, coins[2 * n])
            return drafts[:i] + [correction], ["accepted"] * i + ["correction"] + ["not reached"] * (n - i)
        before, row = token, before
    return {full}
"""
RIGHT = {
    "draft": "draw(p[token], u)",
    "correction": "residual(q[before], p[before])",
    "full": 'drafts + [draw(q[before], coins[2 * n])], ["accepted"] * n + ["bonus"]',
}
CORRECTION_FROM_Q = STEP.format(**RIGHT | {"correction": "q[before]"})
NO_BONUS = STEP.format(**RIGHT | {"full": 'drafts, ["accepted"] * n + ["not reached"]'})
BONUS_FROM_USED_ROW = STEP.format(
    **RIGHT | {"full": 'drafts + [draw(q[row], coins[2 * n])], ["accepted"] * n + ["bonus"]'}
)
DRAFT_BY_ARGMAX = STEP.format(**RIGHT | {"draft": "p[token].index(max(p[token]))"})
GOES_ON = """
def speculative_step(q, p, last, coins):
    n = len(coins) // 2
    token, tokens, reasons = last, [], []
    for i in range(n):
        before, token = token, draw(p[token], coins[i])
        if accept(q[before][token], p[before][token], coins[n + i]):
            reasons.append("accepted")
        else:
            token = draw(residual(q[before], p[before]), coins[2 * n])
            reasons.append("correction")
        tokens.append(token)
    if "correction" in reasons:
        return tokens, reasons + ["not reached"]
    return tokens + [draw(q[token], coins[2 * n])], reasons + ["bonus"]
"""
CHI_SECOND_SAMPLE = """
def chi_square(counts, q):
    n, other = sum(counts), [0] * len(q)
    for _ in range(n):
        other[draw(q, random.random())] += 1
    statistic = sum((a - b) ** 2 / (a + b) for a, b in zip(counts, other) if a + b)
    df = len(q) - 1
    return statistic, df, statistic <= critical_95(df)
"""
CHI_WRONG_DF = """
def chi_square(counts, q):
    n = sum(counts)
    statistic = sum((count - n * q_t) ** 2 / (n * q_t) for count, q_t in zip(counts, q))
    df = len(q)
    return statistic, df, statistic <= critical_95(df)
"""


def released() -> dict[str, Any]:
    """The notebook as a student gets it."""
    return json.loads(RELEASED.read_text(encoding="utf-8"))


def solved(**changes: str) -> dict[str, Any]:
    """The reference solution as a student would hand it in; changes are {id of a solution cell: source}.

    Dashes of the ids are underscores here: solved(residual_code="...").
    """
    source = json.loads(EXERCISE.notebook.read_text(encoding="utf-8"))
    solutions = {
        cell["metadata"]["nbgrader"]["grade_id"]: "".join(
            line for line in cell["source"] if line.strip() not in ("### BEGIN SOLUTION", "### END SOLUTION")
        )
        for cell in source["cells"]
        if cell["metadata"].get("nbgrader", {}).get("solution")
    }
    wanted = {name.replace("_", "-"): text for name, text in changes.items()}
    assert set(wanted) <= set(solutions)
    notebook = released()
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in solutions:
            cell["source"] = (solutions | wanted)[name]
    return notebook


def with_cell(notebook: dict[str, Any], source: str, at: int | None = None) -> dict[str, Any]:
    """The notebook with one more code cell, at the end or at a place."""
    changed = copy.deepcopy(notebook)
    cell = {"cell_type": "code", "execution_count": None, "id": "extra", "metadata": {}, "outputs": []}
    changed["cells"].insert(len(changed["cells"]) if at is None else at, cell | {"source": source})
    return changed


def hand_in(folder: Path, student: str, notebook: dict[str, Any] | str | bytes) -> Path:
    """Put a notebook, or whatever bytes, where nbgrader's tree has it."""
    path = folder / student / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(notebook) if isinstance(notebook, dict) else notebook
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


SEVEN = {
    "reference": solved,
    "empty": released,
    "m01-residual-unclamped": lambda: solved(residual_code=RESIDUAL_UNCLAMPED),
    "m05-accept-inverted": lambda: solved(accept_code=ACCEPT_INVERTED),
    "m06-correction-from-q": lambda: solved(step_code=CORRECTION_FROM_Q),
    "m08-no-bonus": lambda: solved(step_code=NO_BONUS),
    "m10-second-sample": lambda: solved(chi_code=CHI_SECOND_SAMPLE),
}
