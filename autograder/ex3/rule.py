"""What right answers about a draft tree are, given a student's own earlier parts.

One row of children is decided by `level`, a whole tree by walking down with it, and a law or a mean is a sum
over all walks. Each can be wrong by itself. So a row of children is judged against *readings*: the right
rule, and rules that are wrong in one or more known ways. A part of the rule is right if a reading that has it
right explains all answers. And what is built on the row is judged with the right rule or with the student's
own, asked as a black box.

Given probabilities are multiples of 1/64, coins odd multiples of 1/512. What follows from them, an owed q'
say, is not. So a case is used only if no right decision or draw in it is nearer to its edge than EDGE, which
single precision can tell. Nothing here is statistical: a right answer never fails.

Layout: a node is a dict of "token", "coin" (None at the root), "q" [V], "p" [V], "drawn" ("sampled" or "top")
and "children", nodes in the order in which they are tried. Tables q, p [V][V] as in exercise 1.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from autograder.ex1.rule import Row, coin, draw, normalised, residual_rule, row
from autograder.process import Died
from autograder.student import Blocked, Missed, NoAnswer, Student
from specdec.theory.exact import Chance, paths

PARTS = (
    "flatten",
    "ancestor_mask",
    "choose_child",
    "verify_tree",
    "measure",
    "expected_tokens",
    "compare",
    "best_path_law",
)
TOLERANCE = 1e-4  # single precision passes; a wrong idea is off by more than 1e-3 in some case of every check
EDGE = 1e-3
Node = dict[str, Any]
Decision = tuple[int | None, Row]
Decide = Callable[[Node], Decision | None]


# -- one row of children -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How somebody may decide a row of sampled children; the defaults are right."""

    accept: str = "q/p"  # or "p/q", "q"
    owed: str = "residual"  # or "same", "clamped", "without"
    p: str = "renormalised"  # or "zeroed", "plain"


RIGHT = Reading()
READINGS = [
    Reading(accept, owed, p)
    for accept, owed, p in itertools.product(
        ("q/p", "p/q", "q"),
        ("residual", "same", "clamped", "without"),
        ("renormalised", "zeroed", "plain"),
    )
]


def level(node: Node, how: Reading = RIGHT) -> Decision:
    """The index of the first accepted child, or None, and what is owed after the rejections before it."""
    *_, (index, owed, _) = _tries(node, how)
    return index, owed


def _tries(node: Node, how: Reading) -> Iterator[tuple[int | None, Row, float]]:
    """After each child (index, owed, distance of its coin from the edge), beginning before the first one."""
    owed, left = list(node["q"]), list(node["p"])
    yield None, owed, 1.0
    for i, child in enumerate(node["children"]):
        x, u = child["token"], child["coin"]
        p_i = _p_of(node, left, x, how)
        a, b = {"q/p": (owed[x], p_i[x]), "p/q": (p_i[x], owed[x]), "q": (owed[x], 1.0)}[how.accept]
        edge = abs(u * b - a)
        if u * b < a:
            yield i, owed, edge
            return
        left = [0.0 if t == x else value for t, value in enumerate(left)]
        owed = _after(owed, p_i, x, how)
        yield None, owed, edge


def _p_of(node: Node, left: Row, x: int, how: Reading) -> Row:
    """What this reading takes the child x to be drawn from, `left` being p without its siblings."""
    if node["drawn"] == "top":
        return [float(t == x) for t in range(len(left))]
    return {"renormalised": normalised(left), "zeroed": left, "plain": node["p"]}[how.p]


def owed_after_all(node: Node, how: Reading = RIGHT) -> Row:
    """What this reading owes after it rejected all children, whatever their coins."""
    owed, left = list(node["q"]), list(node["p"])
    for x in (child["token"] for child in node["children"]):
        owed = _after(owed, _p_of(node, left, x, how), x, how)
        left = [0.0 if t == x else value for t, value in enumerate(left)]
    return owed


def _after(owed: Row, p_i: Row, x: int, how: Reading) -> Row:
    """What this reading owes after x was rejected."""
    clamped = [max(0.0, a - b) for a, b in zip(owed, p_i, strict=True)]
    return {
        "residual": lambda: normalised(clamped) or owed,
        "same": lambda: owed,
        "clamped": lambda: clamped,
        "without": lambda: normalised([0.0 if t == x else v for t, v in enumerate(owed)]) or owed,
    }[how.owed]()


def is_clear(node: Node, readings: Sequence[Reading] = (RIGHT,)) -> bool:
    """Is every decision of this row far from its edge, and is something owed after every right rejection?"""
    if any(edge < EDGE for how in readings for _, _, edge in _tries(node, how)):
        return False
    owed, left = list(node["q"]), list(node["p"])
    for x in (child["token"] for child in node["children"]):
        p_i = _p_of(node, left, x, RIGHT)
        if sum(max(0.0, a - b) for a, b in zip(owed, p_i, strict=True)) < 20 * EDGE:
            return False
        owed = _after(owed, p_i, x, RIGHT)
        left = [0.0 if t == x else value for t, value in enumerate(left)]
    return True


def bare(token: int, q: Row, p: Row, drawn: str = "sampled") -> Node:
    """A node without children, which is its own root."""
    return {"token": token, "coin": None, "q": q, "p": p, "drawn": drawn, "children": []}


def one_row(rng: random.Random, drawn: str, k: int, high: float = 0.0) -> Node:
    """A root with k children over 3 to 6 tokens, clear, with coins above `high`."""
    while True:
        size = rng.randint(k + 2, 6)
        q, p = row(rng, size), row(rng, size)
        left, node = list(p), bare(rng.randrange(size), q, p, drawn)
        for _ in range(k):
            best = left.index(max(left))
            x = best if drawn == "top" else rng.choices(range(size), left)[0]
            left[x] = 0.0
            child = bare(x, row(rng, size), row(rng, size), drawn)
            node["children"].append(child | {"coin": coin(rng, high, 1.0)})
        if is_clear(node) and is_clear(node, READINGS):
            return node


def differ_once(a: Reading, b: Reading) -> bool:
    return (a.accept != b.accept) + (a.owed != b.owed) + (a.p != b.p) == 1


@cache
def sampled_rows() -> list[Node]:
    """Rows of sampled children that are rejected, and rows that tell readings apart.

    That is, any two that differ in one respect and can be told apart: the same q for all makes two p equal.
    """
    rng = random.Random(311)
    pairs = {(a, b) for a, b in itertools.combinations(READINGS, 2) if differ_once(a, b)}
    chosen = [rejected_row(rng, k) for k in (1, 1, 1, 2, 2, 3)]
    chosen += [rejected_row(rng, k, how=Reading("p/q")) for k in (1, 1, 2)]
    for _ in range(150):
        node = one_row(rng, "sampled", rng.choice([2, 2, 3]), rng.choice([0.0, 0.25, 0.5]))
        index = {how: level(node, how)[0] for how in READINGS}
        told = {(a, b) for a, b in pairs if index[a] != index[b]}
        if told or len(chosen) < 27:
            chosen.append(node)
            pairs -= told
    return chosen


def rejected_row(rng: random.Random, k: int, drawn: str = "sampled", how: Reading = RIGHT) -> Node:
    """A row whose children this reading rejects."""
    while True:
        node = one_row(rng, drawn, k, 0.75)
        if level(node, how)[0] is None:
            return node


@cache
def top_rows() -> list[Node]:
    """Rows of top-k children on which another rule decides otherwise, or which are rejected."""
    rng = random.Random(312)
    chosen = [rejected_row(rng, k, "top") for k in (1, 2, 2, 3)]
    while len(chosen) < 20:
        node = one_row(rng, "top", rng.choice([1, 2, 2, 3]))
        right = level(node)[0]
        others = {level(node | {"drawn": "sampled"}, Reading(p=p))[0] for p in ("renormalised", "zeroed")}
        same = level(node, Reading(owed="same"))[0]
        if right not in others or right != same:
            chosen.append(node)
    return chosen


# -- whole trees ---------------------------------------------------------------------------------------------


def grow(rng: random.Random, q: Sequence[Row], p: Sequence[Row], last: int, branching: Sequence[int]) -> Node:
    """A tree of sampled children whose coins are drawn too."""
    node, left = bare(last, q[last], p[last]), list(p[last])
    for _ in range(branching[0] if branching else 0):
        (x,) = rng.choices(range(len(left)), left)
        left[x] = 0.0
        node["children"].append(grow(rng, q, p, x, branching[1:]) | {"coin": coin(rng)})
    return node


def ragged(rng: random.Random, size: int, depth: int) -> Node:
    """A tree in which no two nodes need to have equally many children."""
    node = bare(rng.randrange(size), row(rng, size), row(rng, size))
    for x in rng.sample(range(size), rng.randint(1, 3) if depth else 0):
        child = ragged(rng, size, depth - 1 if rng.random() < 0.7 else 0)
        node["children"].append(child | {"token": x, "coin": coin(rng)})
    return node


def tables(rng: random.Random, size: int) -> tuple[list[Row], list[Row]]:
    """Two random models; in half of the rows the draft is near the verifier, so that walks go deep too."""
    q = [row(rng, size) for _ in range(size)]
    return q, [row(rng, size) if rng.random() < 0.5 else list(line) for line in q]


def nodes_of(tree: Node) -> list[tuple[Node, int]]:
    """(node, row of its parent), level by level; the root's parent is -1."""
    rows = [(tree, -1)]
    for i, (node, _) in enumerate(rows):  # grows while it is read
        rows += [(child, i) for child in node["children"]]
    return rows


def leaf_paths(tree: Node) -> list[list[int]]:
    """The drafted tokens of every path from the root to a leaf, left to right."""
    if not tree["children"]:
        return [[]]
    return [[child["token"], *path] for child in tree["children"] for path in leaf_paths(child)]


def at(tree: Node, tokens: Sequence[Any]) -> Node | None:
    """The node that these drafted tokens lead to, if there is one."""
    for token in tokens:
        tree = next((child for child in tree["children"] if child["token"] == token), {})
        if not tree:
            return None
    return tree


def walk(tree: Node, decide: Decide = level) -> tuple[list[int], Node, Row] | None:
    """The accepted tokens, the node where the walk ends, and what is owed there; None without an answer."""
    kept: list[int] = []
    while tree["children"]:
        answer = decide(tree)
        if answer is None:
            return None
        index, owed = answer
        if index is None:
            return kept, tree, owed
        tree = tree["children"][index]
        kept.append(tree["token"])
    return kept, tree, tree["q"]


def best_paths(tree: Node) -> list[list[int]]:
    """Wrong: the longest paths of nodes that are accepted by themselves, the likeliest first."""
    found: list[tuple[int, float, list[int]]] = []

    def visit(node: Node, probability: float, tokens: list[int]) -> None:
        found.append((len(tokens), probability, tokens))
        left = list(node["p"])
        for child in node["children"]:
            x = child["token"]
            if child["coin"] * normalised(left)[x] < node["q"][x]:
                visit(child, probability * node["q"][x], [*tokens, x])
            left[x] = 0.0

    visit(tree, 1.0, [])
    found.sort(reverse=True)
    return [tokens for length, _, tokens in found if length == found[0][0]]


def margin(weights: Row, u: float) -> float:
    """How far the coin is from the nearest edge between two tokens."""
    total = sum(weights)
    return min(abs(u - edge / total) for edge in itertools.accumulate(weights))


@dataclass(frozen=True)
class Round:
    """One tree to verify, with its last coin."""

    tree: Node
    final: float

    @property
    def kept(self) -> list[int]:
        return (walk(self.tree) or ([], self.tree, []))[0]

    @property
    def end(self) -> tuple[Node, Row]:
        return (walk(self.tree) or ([], self.tree, []))[1:]


def rounds(seed: int, branchings: Sequence[Sequence[int]]) -> Iterator[Round]:
    """An endless stream of rounds."""
    rng = random.Random(seed)
    while True:
        q, p = tables(rng, rng.randint(4, 5))
        for _ in range(10):
            yield Round(grow(rng, q, p, rng.randrange(len(q)), rng.choice(branchings)), coin(rng))


def some(stream: Iterator[Round], count: int, fits: Callable[[Round], bool]) -> list[Round]:
    """The first rounds that fit and are clear."""

    def clear(one: Round) -> bool:
        node, owed = one.end
        last = min(margin(owed, one.final), margin(node["q"], one.final))
        return last > EDGE and all(is_clear(node) for node, _ in nodes_of(one.tree) if node["children"])

    return list(itertools.islice((one for one in stream if fits(one) and clear(one)), count))


def all_rounds(
    q: Sequence[Row], p: Sequence[Row], last: int, branching: Sequence[int]
) -> list[dict[str, Any]]:
    """Every walk of a tree of this shape once, as a round whose weight is the probability of the walk.

    A coin stands in the middle of the interval that decides the same. Subtrees beside the walk are never
    looked at, so one of each is enough, and so is one last coin: no mean depends on it.
    """

    def grown(chance: Chance, token: int, shape: Sequence[int], live: bool) -> Node:
        node, left = bare(token, q[token], p[token]), list(p[token])
        for _ in range(shape[0] if shape else 0):
            x = chance.draw(tuple(normalised(left))) if live else left.index(max(left))
            left[x] = 0.0
            child = bare(x, q[x], p[x]) | {"coin": 0.5}
            node["children"].append(child)
        if not shape:
            return node
        owed, left = list(q[token]), list(p[token])
        for child in node["children"]:
            x, p_i = child["token"], normalised(left)
            share = min(1.0, owed[x] / p_i[x])
            kept = chance.coin(share) if live else True
            child["coin"] = share / 2 if kept else (1 + share) / 2
            child["children"] = grown(chance, x, shape[1:], live and kept)["children"]
            live = live and not kept
            owed, left[x] = residual_rule(owed, p_i), 0.0
        return node

    return [
        {"tree": tree, "final": 0.5, "weight": probability}
        for probability, tree in paths(lambda chance: grown(chance, last, branching, True))
    ]


# -- laws and means ------------------------------------------------------------------------------------------


def accepted_law(q: Row, p: Row, k: int) -> Row:
    """For each token, the probability that it is the accepted one of k children without replacement."""
    law = [0.0] * len(q)

    def go(owed: Row, left: Row, probability: float, more: int) -> None:
        p_i = normalised(left)
        for x, share in enumerate(p_i) if more and probability else ():
            if share <= 0:
                continue
            kept = min(1.0, owed[x] / share)
            law[x] += probability * share * kept
            rest = [0.0 if t == x else value for t, value in enumerate(left)]
            go(residual_rule(owed, p_i), rest, probability * share * (1 - kept), more - 1)

    go(list(q), list(p), 1.0, k)
    return law


def expected_rule(q: Sequence[Row], p: Sequence[Row], last: int, branching: Sequence[int]) -> float:
    """Tokens per verifier call: 1 and, for each level, the probability that the walk passes it."""
    passed = {k: [accepted_law(a, b, k) for a, b in zip(q, p, strict=True)] for k in set(branching)}
    value = [1.0] * len(q)
    for k in reversed(branching):
        value = [1 + sum(a * b for a, b in zip(line, value, strict=True)) for line in passed[k]]
    return value[last]


def best_law_rule(q: Row, p: Row, replaced: bool = False, plain: bool = False) -> Row:
    """The law of the token if two children are checked by themselves and the likelier one wins."""
    law = [0.0] * len(q)
    for x, y in itertools.permutations(range(len(q)), 2):
        p_y = p[y] if replaced or plain else p[y] / (1 - p[x])
        if p[x] <= 0 or p[y] <= 0:
            continue
        probability = p[x] * (p[y] if replaced else p[y] / (1 - p[x]))
        a, b = min(1.0, q[x] / p[x]), min(1.0, q[y] / p_y)
        law[x if q[x] >= q[y] else y] += probability * a * b
        law[x] += probability * a * (1 - b)
        law[y] += probability * (1 - a) * b
        for t, share in enumerate(residual_rule(q, p)):
            law[t] += probability * (1 - a) * (1 - b) * share
    return law


def total_variation(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / 2


# -- asking --------------------------------------------------------------------------------------------------


def ask(student: Student, name: str, *args: Any) -> Any:
    """The student's answer. Blocked if the code stumbled over another part of the exercise."""
    try:
        return student.call(name, *args)
    except NoAnswer as error:
        inside = [one for one in error.where if one in PARTS]
        if inside and inside[-1] != name:
            raise Blocked(inside[-1]) from None
        raise


def decision(answer: Any, node: Node) -> Decision:
    """(index, owed) of a choose_child, or Missed("shape")."""
    if type(answer) is not list or len(answer) != 2:
        raise Missed("shape", f"choose_child returned {answer!r:.200}")
    index, owed = answer
    if index is not None and not (type(index) is int and 0 <= index < len(node["children"])):
        raise Missed("shape", f"choose_child returned the index {index!r:.80}")
    return index, vector(owed, len(node["q"]))


def own_choice(student: Student) -> Decide:
    """The student's choose_child as a black box; None where it gives no decision."""

    def decide(node: Node) -> Decision | None:
        try:
            return decision(student.call("choose_child", node), node)
        except (NoAnswer, Missed):
            return None
        except Died:
            raise Blocked("choose_child") from None

    return decide


def verdict_of(answer: Any) -> tuple[list[Any], Any]:
    """(tokens, per_leaf) of a verify_tree, or Missed("shape")."""
    if type(answer) is not list or len(answer) != 2 or type(answer[0]) is not list:
        raise Missed("shape", f"verify_tree returned {answer!r:.200}")
    return answer[0], answer[1]


def ask_round(student: Student, one: Round) -> tuple[list[Any], Any]:
    """The student's verdict. Blocked if choose_child gives no decision on the way."""
    try:
        return verdict_of(ask(student, "verify_tree", one.tree, one.final))
    except NoAnswer as error:
        if error.idea != "not-written" and walk(one.tree, own_choice(student)) is None:
            raise Blocked("choose_child") from None
        raise


def vector(value: Any, length: int) -> Row:
    """A list of `length` finite numbers, or Missed("shape")."""
    if type(value) is not list or len(value) != length:
        raise Missed("shape", f"{length} numbers expected, got {value!r:.200}")
    return [number(x) for x in value]


def number(value: Any) -> float:
    """A finite number, or Missed("shape")."""
    if type(value) not in (int, float) or not abs(value) < 1e300:
        raise Missed("shape", f"a number expected, got {value!r:.200}")
    return float(value)


def near(got: Sequence[float], expected: Sequence[float], tolerance: float = TOLERANCE) -> bool:
    return len(got) == len(expected) and all(
        abs(a - b) <= tolerance for a, b in zip(got, expected, strict=True)
    )


def proportional(got: Row, expected: Row) -> bool:
    """Is got a positive multiple of expected?"""
    total, wanted = sum(got), sum(expected)
    if wanted < 1e-9:
        return abs(total) < 1e-6
    return total > 0 and wanted > 0 and near([x / total for x in got], [x / wanted for x in expected])


def first_drawn(weights: Row, u: float) -> set[int]:
    """The tokens that may be read off something owed with the coin u, even off something wrong."""
    clamped = [max(0.0, weight) for weight in weights]
    return {draw(line, u) for line in (weights, clamped, normalised(clamped)) if line}
