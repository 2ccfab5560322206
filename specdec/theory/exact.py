"""The exact output distribution of a verification rule: every path it can take, added up.

A rule is a plain function that asks `chance` for its random choices, `chance.draw(law)` for a token and
`chance.coin(probability)` for yes or no, and returns `(kept, law)`: the drafts it keeps and the distribution
of one more token (None for no more). `paths` runs it once per combination of answers and knows how probable
each is. So any rule that can be written down can be judged without a sample, to the last digit.

What "exact" means when a step emits a varying number of tokens. Prefixes of different lengths cannot be
compared with q directly, and "the second token, given that there is one" is *not* distributed as q: a step
that went on had its first draft accepted, which favours tokens that p likes. So each prefix is completed with
the verifier's own continuation to N + 1 tokens, and the joint distribution of these must be q's own product.
That covers a whole run: replace the continuation by one more step, which is exact too, again and again.
A wrong bonus token shows only in the joint of all N + 1 tokens, so in pairs only where N = 1.

Layout: a model that depends on its context is a list of arrays, `table[i][prefix] -> [V]` for a prefix (a
tuple) of i tokens: table[i] has i + 1 axes of size V. q has N + 1 such arrays, p has N. Letters as in
`rejection.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from specdec.errors import SpecdecError
from specdec.theory.rejection import SUM_TOLERANCE, check_distribution, residual
from specdec.theory.stats import total_variation

Law: TypeAlias = NDArray[np.float64]  # [V], sums to 1
Table: TypeAlias = Sequence[NDArray[np.float64]]
Emission: TypeAlias = tuple[tuple[int, ...], Law | None]
ChainRule: TypeAlias = Callable[[Table, Table, "Chance"], Emission]
ChildRule: TypeAlias = Callable[[Law, Law, int, "Chance"], Emission]
Siblings: TypeAlias = list[int]
T = TypeVar("T")

LARGEST_JOINT = 1_000_000  # V^(N+1) beyond this is a job for sampling


# -- every path of a random program ------------------------------------------------------------------------


class Chance:
    """Answers the random choices of one run: first as scripted, then with the first possible answer.

    `probability` is that of the run so far; `untried` holds the scripts of the runs that branch off it.
    """

    def __init__(self, script: tuple[int, ...] = ()) -> None:
        self.script = script
        self.answers: tuple[int, ...] = ()
        self.probability = 1.0
        self.untried: list[tuple[int, ...]] = []

    def draw(self, law: Law | tuple[float, ...]) -> int:
        """A token of the distribution [V]; one of probability zero is never answered."""
        if len(self.answers) < len(self.script):
            answer = self.script[len(self.answers)]
        else:
            answer, *others = np.flatnonzero(law).tolist()
            self.untried += [(*self.answers, other) for other in others]
        self.answers += (answer,)
        self.probability *= float(law[answer])
        return answer

    def coin(self, probability: float) -> bool:
        """True with this probability."""
        return self.draw((1.0 - probability, probability)) == 1


def paths(program: Callable[[Chance], T]) -> Iterator[tuple[float, T]]:
    """Yield (probability, outcome) for every path of a program that asks `chance` for its random choices."""
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        chance = Chance(scripts.pop())
        outcome = program(chance)
        scripts += chance.untried
        yield chance.probability, outcome


# -- rules for a chain -------------------------------------------------------------------------------------


def leviathan(
    q: Table,
    p: Table,
    chance: Chance,
    propose: Callable[[Law], Law] = lambda p_i: p_i,
    correction: Callable[[Law, Law], Law] = residual,
) -> Emission:
    """Exact: N draws from p, then `rejection.verify_chain`. The last two arguments are there to break it."""
    drafts: tuple[int, ...] = ()
    for p_i in p:
        drafts += (chance.draw(propose(p_i[drafts])),)
    for i, x in enumerate(drafts):
        q_i, p_i = q[i][drafts[:i]], p[i][drafts[:i]]
        if not chance.coin(min(1.0, q_i[x] / p_i[x])):
            return drafts[:i], correction(q_i, p_i)
    return drafts, q[-1][drafts]


def correction_from_q(q: Table, p: Table, chance: Chance) -> Emission:
    """Wrong: after a rejection, draws from q itself, so what drafting already paid is paid twice."""
    return leviathan(q, p, chance, correction=lambda q_i, p_i: q_i)


def unnormalised_residual(q: Table, p: Table, chance: Chance) -> Emission:
    """Wrong: max(0, q - p) not normalised, read by inverse CDF, so the last token gets what is missing."""

    def clamped(q_i: Law, p_i: Law) -> Law:
        law = np.maximum(0.0, q_i - p_i)
        law[-1] += 1.0 - law.sum()
        return law

    return leviathan(q, p, chance, correction=clamped)


def argmax_draft_softmax_p(q: Table, p: Table, chance: Chance) -> Emission:
    """Wrong: proposes the most likely token, but verifies it as if it had been drawn from p."""
    return leviathan(q, p, chance, propose=lambda p_i: np.eye(p_i.size)[p_i.argmax()])


def argmax_draft_one_hot_p(q: Table, p: Table, chance: Chance) -> Emission:
    """Exact: the same proposals, verified with the distribution they really come from."""
    return leviathan(q, greedy_table(p), chance)


def bonus_from_last_row(q: Table, p: Table, chance: Chance) -> Emission:
    """Wrong: draws the bonus token from the last draft's row of q instead of the row after it."""
    kept, law = leviathan(q, p, chance)
    return (kept, q[-2][kept[:-1]]) if kept and len(kept) == len(p) else (kept, law)


def every_draft_accepted(q: Table, p: Table, chance: Chance) -> Emission:
    """Wrong: never rejects, so the drafts' own distribution comes out."""
    return leviathan(p=p, q=[*p, q[-1]], chance=chance)


WRONG_CHAIN_RULES: tuple[ChainRule, ...] = (
    correction_from_q,
    unnormalised_residual,
    argmax_draft_softmax_p,
    bonus_from_last_row,
    every_draft_accepted,
)


# -- rules for the children of one tree node ---------------------------------------------------------------


def sampled_children(q: Law, p: Law, k: int, chance: Chance) -> Emission:
    """Exact: children sampled without replacement, each verified with what is left of p, renormalised."""
    return _children(q, p, k, chance, drawn=_rest, verified=_rest)


def top_k_children(q: Law, p: Law, k: int, chance: Chance) -> Emission:
    """Exact: the draft's k most likely tokens, each verified with a one-hot p."""
    return _children(q, p, k, chance, drawn=_best, verified=_best)


def top_k_children_softmax_p(q: Law, p: Law, k: int, chance: Chance) -> Emission:
    """Wrong: the draft's k most likely tokens, verified as if each had been drawn from p."""
    return _children(q, p, k, chance, drawn=_best, verified=lambda p, siblings: p)


def sampled_children_unnormalised_p(q: Law, p: Law, k: int, chance: Chance) -> Emission:
    """Wrong: children sampled without replacement, verified with what is left of p, not renormalised."""
    return _children(q, p, k, chance, drawn=_rest, verified=_zeroed)


def _children(
    q: Law,
    p: Law,
    k: int,
    chance: Chance,
    drawn: Callable[[Law, Siblings], Law],
    verified: Callable[[Law, Siblings], Law],
) -> Emission:
    siblings: Siblings = []
    for _ in range(k):
        x, p_i = chance.draw(drawn(p, siblings)), verified(p, siblings)
        if chance.coin(min(1.0, q[x] / p_i[x])):
            return (x,), None
        owed = np.maximum(0.0, q - p_i)
        q = owed / owed.sum()
        siblings.append(x)
    return (), q


def _zeroed(p: Law, siblings: Siblings) -> Law:
    left = p.copy()
    left[siblings] = 0.0
    return left


def _rest(p: Law, siblings: Siblings) -> Law:
    left = _zeroed(p, siblings)
    return left / left.sum()


def _best(p: Law, siblings: Siblings) -> Law:
    return np.eye(p.size)[_zeroed(p, siblings).argmax()]


# -- their distributions -----------------------------------------------------------------------------------


def chain_distribution(q: Table, p: Table, rule: ChainRule = leviathan) -> NDArray[np.float64]:
    """Joint distribution, N + 1 axes of size V, of the tokens that begin with what one step of `rule` emits.

    Exact means equal to `verifier_distribution(q)`.
    """
    q, p = _checked(q, p)
    return _completed(q, lambda chance: rule(q, p, chance))


def children_distribution(q: Law, p: Law, k: int, rule: ChildRule = sampled_children) -> Law:
    """Distribution [V] of the token emitted at one tree node whose k children the draft chose by p [V].

    Exact means equal to q.
    """
    q, p = check_distribution(q, "q"), check_distribution(p, "p")
    if q.size != p.size:
        raise SpecdecError(f"q and p must share one vocabulary, got {q.size} and {p.size} tokens.")
    if not 1 <= k <= np.count_nonzero(p):
        raise SpecdecError(f"k children need k tokens with p > 0: k = {k}, but p has {np.count_nonzero(p)}.")
    return _completed([q], lambda chance: rule(q, p, k, chance))


def verifier_distribution(q: Table) -> NDArray[np.float64]:
    """The verifier's own joint distribution of len(q) tokens: the product of its conditionals."""
    joint = np.ones(())
    for q_i in q:
        joint = joint[..., None] * q_i
    return joint


def distance(q: Table, p: Table, rule: ChainRule = leviathan, tokens: int | None = None) -> float:
    """Total variation between the rule's first `tokens` tokens (default: all N + 1) and the verifier's."""
    joint = chain_distribution(q, p, rule)
    later = tuple(range(joint.ndim if tokens is None else tokens, joint.ndim))
    return total_variation(joint.sum(later), verifier_distribution(q).sum(later))


def _completed(q: Table, program: Callable[[Chance], Emission]) -> NDArray[np.float64]:
    # emitted[m][tokens] is the probability that exactly these m tokens come out
    emitted = [np.zeros(q_i.shape[:-1]) for q_i in q] + [np.zeros(q[-1].shape)]
    for probability, (kept, law) in paths(program):
        if len(kept) + (law is not None) > len(q):
            raise SpecdecError(f"the rule emitted more than the {len(q)} tokens that q has rows for.")
        if law is None:
            emitted[len(kept)][kept] += probability
        else:
            emitted[len(kept) + 1][kept] += probability * law
    joint = emitted[0]
    for q_i, longer in zip(q, emitted[1:], strict=True):
        joint = joint[..., None] * q_i + longer
    if abs(joint.sum() - 1) > 1e-4:
        raise SpecdecError(
            f"the rule's paths sum to {joint.sum():.6g}: every law it draws from must sum to 1."
        )
    return joint


def _checked(q: Table, p: Table) -> tuple[Table, Table]:
    q, p = [np.asarray(t, dtype=np.float64) for t in q], [np.asarray(t, dtype=np.float64) for t in p]
    vocab = q[0].size if q else 0
    if len(q) != len(p) + 1 or any(t.shape != (vocab,) * (i + 1) for s in (q, p) for i, t in enumerate(s)):
        raise SpecdecError(
            "q needs N + 1 arrays and p needs N, array i with i + 1 axes of size V; "
            f"got q {[t.shape for t in q]} and p {[t.shape for t in p]}."
        )
    if q[-1].size > LARGEST_JOINT:
        raise SpecdecError(f"V^(N+1) = {q[-1].size} is too many to enumerate; {LARGEST_JOINT} is the limit.")
    for name, table in (("q", q), ("p", p)):
        for i, rows in enumerate(table):
            if not ((rows >= 0).all() and (abs(rows.sum(axis=-1) - 1) <= SUM_TOLERANCE).all()):
                raise SpecdecError(f"{name}[{i}] holds a row that does not sum to 1 or is negative.")
    return q, p


# -- tables ------------------------------------------------------------------------------------------------


def random_table(vocab: int, depth: int, rng: np.random.Generator) -> list[NDArray[np.float64]]:
    """A model that depends on its whole prefix, each row uniform over all distributions."""
    return [rng.dirichlet(np.ones(vocab), size=(vocab,) * i) for i in range(depth)]


def markov_table(rows: NDArray[np.float64], last: int, depth: int) -> list[NDArray[np.float64]]:
    """The same layout for a model, rows [V, V], that depends on the token before only; `last` comes first."""
    return [rows[last], *(np.broadcast_to(rows, (len(rows),) * (i + 1)) for i in range(1, depth))]


def greedy_table(p: Table) -> list[NDArray[np.float64]]:
    """What a draft that always proposes its most likely token is: one-hot rows."""
    return [np.eye(p_i.shape[-1])[p_i.argmax(axis=-1)] for p_i in p]
