"""Rules for a whole draft tree, right and wrong, for exact.py to enumerate.

A tree of depth N is verified from its root: one row of children after the other, as long as a child is
accepted. So a rule for the children of one node makes a rule for a tree, `level_by_level`, and it is exact if
the children's rule is. What goes wrong elsewhere goes wrong between the levels: `best_accepted_path`.

The tables are those of a chain of N drafts: p and q depend on the whole prefix. `branching` says how many
children each node of a level gets; where p has fewer tokens, it is as many as p has.
"""

from collections.abc import Sequence

import numpy as np

from specdec.theory.exact import Chance, ChildRule, Emission, Law, Table, sampled_children
from specdec.theory.rejection import residual


def level_by_level(
    q: Table, p: Table, chance: Chance, branching: Sequence[int], children: ChildRule = sampled_children
) -> Emission:
    """Exact with an exact rule for children: walk down while one is accepted, then a correction or bonus.

    Only children on the path are drawn. The others would be drawn independently and never looked at.
    """
    prefix: tuple[int, ...] = ()
    for i, k in enumerate(branching):
        p_i = p[i][prefix]
        kept, law = children(q[i][prefix], p_i, min(k, int(np.count_nonzero(p_i))), chance)
        if law is not None:
            return prefix, law
        prefix += kept
    return prefix, q[len(branching)][prefix]


def same_q_for_siblings(q: Law, p: Law, k: int, chance: Chance) -> Emission:
    """Wrong: every sibling is verified against q, as if those before it had not been rejected."""
    left = p
    for _ in range(k):
        x = chance.draw(left)
        if chance.coin(min(1.0, q[x] / left[x])):
            return (x,), None
        left = _without(left, x)
    return (), residual(q, p)


def top_k_as_if_sampled(q: Law, p: Law, k: int, chance: Chance) -> Emission:
    """Wrong: the draft's k most likely tokens, verified by the rule for sampled children."""
    left = p
    for _ in range(k):
        x = int(left.argmax())
        if chance.coin(min(1.0, q[x] / left[x])):
            return (x,), None
        q, left = residual(q, left), _without(left, x)
    return (), q


def best_accepted_path(q: Table, p: Table, chance: Chance, branching: Sequence[int]) -> Emission:
    """Wrong: every node is verified on its own, and of the accepted paths the longest wins.

    Of equally long ones the one with the larger q wins. Each check is right, but the choice among several
    accepted tokens favours what the verifier likes most.
    """
    accepted: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]  # with the probability of the path
    level = accepted
    for i, k in enumerate(branching):
        grown = []
        for probability, prefix in level:
            q_i, left = q[i][prefix], p[i][prefix]
            for _ in range(min(k, int(np.count_nonzero(left)))):
                x = chance.draw(left)
                if chance.coin(min(1.0, q_i[x] / left[x])):
                    grown.append((probability * float(q_i[x]), (*prefix, x)))
                left = _without(left, x)
        level = grown
        accepted = accepted + grown
    _, best = max(accepted, key=lambda path: (len(path[1]), path[0]))
    n = len(best)
    return best, residual(q[n][best], p[n][best]) if n < len(branching) else q[n][best]


def _without(p: Law, x: int) -> Law:
    left = p.copy()
    left[x] = 0.0
    return left / left.sum() if left.any() else left
