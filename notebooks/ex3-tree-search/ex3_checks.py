"""Visible checks of exercise 3: they say in a sentence what is missing. Standard library only.

    check = Checks(globals())
    check("child-sibling")

A check prints one line when all is well; otherwise it raises NotYet, whose message is that sentence. A later part is
checked given your earlier parts: where your choose_child is wrong, a walk that uses it correctly is right. Lists and
arrays are both welcome. The sentences live in ex3_ideas.json, next to this file. After you hand in, hidden checks ask
the same questions about other trees.
"""

import contextlib
import json
import math
import sys
from pathlib import Path

IDEAS = json.loads((Path(__file__).parent / "ex3_ideas.json").read_text(encoding="utf-8"))

TOLERANCE = 1e-4  # float32 answers are welcome; a wrong rule is off by far more


class NotYet(Exception):
    """One sentence about what is missing. Jupyter shows the sentence alone, without a traceback."""

    def __init__(self, idea, detail=""):
        entry = IDEAS[idea]
        seen = f"{detail} " if detail else ""
        where = f"chapter {entry['page']}, {entry['section']}"
        super().__init__(f"Not yet ({entry['title']}): {seen}{entry['sentence']} Read again: {where}.")

    def _render_traceback_(self):
        return [str(self)]


class Checks:
    """Run the visible check of one idea on the functions and variables of a notebook."""

    def __init__(self, names):
        self.names = names

    def __call__(self, idea):
        try:
            with contextlib.redirect_stderr(sys.stdout):
                CHECKS[idea](self.names)
        except NotYet:
            raise
        except NotImplementedError:
            raise NotYet("not-written") from None
        except Exception as error:
            raise NotYet("raised", f"{type(error).__name__}: {error}.") from None
        print(f"ok: {IDEAS[idea]['title']}")


# -- the worked examples of the notebook -------------------------------------------------------------------------------


def node(token, q, p, coin=None, children=(), drawn="sampled"):
    return {"token": token, "coin": coin, "q": q, "p": p, "drawn": drawn, "children": list(children)}


def example(first=0.8, second=0.5, below_first=0.9, below_second=0.4):
    """The tree 0 - (1 - 2, 2 - 0) of the notebook, with these coins."""
    left = node(2, [0.6, 0.2, 0.2], [0.4, 0.3, 0.3], below_first)
    right = node(0, [0.2, 0.5, 0.3], [0.4, 0.3, 0.3], below_second)
    children = [
        node(1, [0.3, 0.5, 0.2], [0.1, 0.4, 0.5], first, [left]),
        node(2, [0.5, 0.25, 0.25], [0.25, 0.5, 0.25], second, [right]),
    ]
    return node(0, [0.4, 0.3, 0.3], [0.2, 0.6, 0.2], None, children)


def row_of(q, p, children, drawn="sampled"):
    """One node whose children are (token, coin)."""
    third = [1 / 3, 1 / 3, 1 / 3]
    return node(0, q, p, None, [node(x, third, third, u, (), drawn) for x, u in children], drawn)


Q_ROW, P_ROW = [0.4, 0.3, 0.3], [0.2, 0.6, 0.2]
PARENTS = [-1, 0, 0, 1, 2]
# The orders in which the rows of the example can stand, parents first: parents, positions, mask.
ORDERS = [
    (PARENTS, [7, 8, 8, 9, 9], ["1....", "11...", "1.1..", "11.1.", "1.1.1"]),
    ([-1, 0, 0, 2, 1], [7, 8, 8, 9, 9], ["1....", "11...", "1.1..", "1.11.", "11..1"]),
    ([-1, 0, 1, 0, 3], [7, 8, 9, 8, 9], ["1....", "11...", "111..", "1..1.", "1..11"]),
]


# -- task 1 ------------------------------------------------------------------------------------------------------------


def check_rows(names):
    rows = run_flatten(names)
    if rows["tokens"] != [0, 1, 2, 2, 0] or rows["parents"] != PARENTS:
        raise NotYet("rows", f"In the example your tokens are {rows['tokens']}, parents {rows['parents']}.")


def check_positions(names):
    rows = run_flatten(names)
    if rows["positions"] not in [positions for _, positions, _ in orders(rows)]:
        by_row = rows["positions"] == [7, 8, 9, 10, 11]
        raise NotYet("positions-row" if by_row else "positions", f"Your positions are {rows['positions']}.")


def check_mask(names):
    mask = listed(find(names, "ancestor_mask")(example()))
    if not isinstance(mask, list) or [len(listed(row)) for row in mask] != [5] * 5:
        raise NotYet("shape", "Five rows of five values are needed in the example.")
    seen = ["".join("1" if value else "." for value in row) for row in mask]
    rows = {}
    with contextlib.suppress(Exception):
        rows = run_flatten(names)
    rights = [right for _, _, right in orders(rows)]
    if seen in rights:
        return
    if not all(seen[i][i] == "1" for i in range(5)):
        raise NotYet("mask-self")
    if all(got == "1" or want == "." for a, b in zip(seen, rights[-1]) for got, want in zip(a, b)):
        raise NotYet("mask-siblings")
    raise NotYet("mask")


def orders(rows):
    """The order of the task, and your own where your parents are those of the example in another order."""
    return [ORDERS[0], *[order for order in ORDERS[1:] if order[0] == rows.get("parents")]]


# -- task 2 ------------------------------------------------------------------------------------------------------------


def check_child_first(names):
    for x, u, expected in [(1, 0.49, 0), (1, 0.51, None), (0, 0.99, 0), (2, 0.5, 0)]:
        index, _ = run_choice(names, row_of(Q_ROW, P_ROW, [(x, u)]))
        if index != expected:
            raise NotYet(
                "child-first",
                f"For one child, token {x} with the coin {u}, you return {index}, not {expected}.",
            )
    if run_choice(names, row_of([0.5, 0.0, 0.5], P_ROW, [(1, 0.0)]))[0] is not None:
        raise NotYet("child-strict")


def check_child_sibling(names):
    index, _ = run_choice(names, row_of(Q_ROW, P_ROW, [(1, 0.8), (2, 0.63)]))
    if first_is_right(names) and index != 1:
        raise NotYet(
            "child-sibling", f"In the example the coin 0.63 keeps the second child, you return {index}."
        )
    index, _ = run_choice(names, row_of([0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [(1, 0.8), (2, 0.01)]))
    if first_is_right(names) and index is not None:
        raise NotYet("child-zeroed", "A token that is owed nothing was kept.")


def check_child_renormalised(names):
    index, _ = run_choice(names, row_of(Q_ROW, P_ROW, [(1, 0.8), (2, 0.9)]))
    if first_is_right(names) and index is not None:
        raise NotYet(
            "child-renormalised", f"In the example the coin 0.90 keeps no child, you return {index}."
        )


def check_child_owed(names):
    index, owed = run_choice(names, row_of(Q_ROW, P_ROW, [(1, 0.8)]))
    # a sum that is not 1, or a token only taken out of q, costs the points of the siblings
    if index is None and not any(proportional(owed, right) for right in ([2, 0, 1], [4, 0, 3])):
        raise NotYet("child-owed", f"After the rejection of one child, token 1, you return {owed}.")
    index, owed = run_choice(names, row_of(Q_ROW, P_ROW, [(1, 0.8), (2, 0.9)]))
    siblings = passes(check_child_sibling, names) and passes(check_child_renormalised, names)
    if siblings and index is None and not near(owed, [1, 0, 0]):
        raise NotYet("child-owed", f"After the rejection of two children you return {owed}.")
    index, owed = run_choice(names, row_of(Q_ROW, P_ROW, []))
    if index is not None or not near(owed, Q_ROW):
        raise NotYet("child-leaf", f"Without children you return {index} and {owed}.")


def check_child_top(names):
    q, p = Q_ROW, [0.25, 0.6, 0.15]
    index, _ = run_choice(names, row_of(q, p, [(1, 0.4), (0, 0.5)], "top"))
    if not first_is_right(names):
        return
    updates = passes(check_child_sibling, names)
    if index not in ([1] if updates else [1, None]):
        raise NotYet("child-softmax" if index == 0 else "child-top", f"In the example you return {index}.")
    index, owed = run_choice(names, row_of(q, p, [(1, 0.4), (0, 0.6)], "top"))
    if updates and passes(check_child_owed, names) and (index is not None or not near(owed, [0, 0, 1])):
        raise NotYet("child-top-owed", f"After two rejections you return {index} and {owed}.")


def first_is_right(names):
    return passes(check_child_first, names)


def passes(one, names):
    try:
        one(names)
    except NotYet:
        return False
    return True


# -- task 3 ------------------------------------------------------------------------------------------------------------

A = (example(), 0.3, [2, 0], 1)  # tree, last coin, accepted tokens, last token
B = (example(second=0.9), 0.8, [], 0)
C = (example(first=0.4, second=0.2), 0.5, [1], 0)


def check_tree_walk(names):
    for tree, final, right, _ in (A, C):
        tokens, _ = run_verify(names, tree, final)
        for kept in (right, own_walk(names, tree)):
            if tokens[:-1] == kept or (tokens == kept and is_leaf(at(tree, kept))):
                break
        else:
            best = tokens[:2] == [2, 0]
            raise NotYet("tree-best" if best else "tree-walk", f"In an example you emit {tokens}.")


def check_tree_correction(names):
    tree, final, _, last = B
    tokens, _ = run_verify(names, tree, final)
    end = at(tree, tokens[:-1])
    if not tokens or end is None or is_leaf(end) or is_leaf(at(tree, tokens)):
        return  # a walk that ends elsewhere is the business of another check
    if tokens[-1] not in {last if end is tree else None} | drawn(names, end, final):
        raise NotYet("tree-correction", f"In the second example you emit {tokens}.")


def check_tree_bonus(names):
    tree, final, kept, last = A
    tokens, _ = run_verify(names, tree, final)
    end = at(tree, tokens[:-1])
    if tokens == kept or (
        is_leaf(end) and tokens[-1] not in {last, *drawn(names, end, final)} and tokens[:-1] == kept
    ):
        raise NotYet(
            "tree-bonus" if tokens == kept else "tree-bonus-row", f"In the first example you emit {tokens}."
        )


def check_tree_leaves(names):
    for tree, final, right, _ in (A, B, C):
        tokens, per_leaf = run_verify(names, tree, final)
        paths = [[1, 2], [2, 0]]
        known = [tokens[:-1], right, tokens]
        if listed(per_leaf) not in [[common(path, kept) for path in paths] for kept in known]:
            raise NotYet("tree-leaves", f"With the tokens {tokens} your counts are {per_leaf}.")


def own_walk(names, tree):
    """The tokens that a walk with your own choose_child accepts; None where it gives no answer."""
    kept = []
    with contextlib.suppress(Exception):
        while tree["children"]:
            index, _ = names["choose_child"](tree)
            if index is None:
                return kept
            tree = tree["children"][index]
            kept.append(tree["token"])
        return kept
    return None


def drawn(names, tree, final):
    """What may be drawn from what your own choose_child says is owed."""
    with contextlib.suppress(Exception):
        owed = [max(0.0, value) for value in vector(names["choose_child"](tree)[1], 3)]
        total = sum(owed) or 1.0
        return {names["draw"](owed, final), names["draw"]([value / total for value in owed], final)}
    return set()


def at(tree, tokens):
    for token in tokens:
        tree = next((child for child in tree["children"] if child["token"] == token), None)
        if tree is None:
            return None
    return tree


def is_leaf(tree):
    return tree is not None and not tree["children"]


def common(path, kept):
    return next((i for i, (a, b) in enumerate(zip(path, kept)) if a != b), min(len(path), len(kept)))


# -- task 4 and 5 ------------------------------------------------------------------------------------------------------


def check_alpha_leaves(names):
    got, own = run_measure(names)
    alpha = vector(got["alpha"], 2)
    if not any(near(alpha, right) for right in ([0.0, 0.25], own and own[0]) if right):
        raise NotYet("alpha-leaves", f"In the example the alphas are 0 and 0.25, not {alpha}.")


def check_tokens_per_call(names):
    got, own = run_measure(names)
    tokens = float(got["tokens_per_call"])
    if not any(near([tokens], [right]) for right in (1.75, own and own[1]) if right is not None):
        short = near([tokens], [0.75])
        raise NotYet(
            "tokens-accepted" if short else "tokens-per-call", f"In the example it is 1.75, yours is {tokens:.4g}."
        )


def run_measure(names):
    """Your measure on the three examples, and what your own verify_tree says about them."""
    rounds = [
        {"tree": tree, "final": final, "weight": weight}
        for (tree, final, *_), weight in ((A, 0.25), (B, 0.5), (C, 0.25))
    ]
    got = find(names, "measure")(rounds)
    if not isinstance(got, dict) or not {"alpha", "tokens_per_call"} <= set(got):
        raise NotYet("shape", "measure must return a dict with alpha and tokens_per_call.")
    own = None
    with contextlib.suppress(Exception):
        mine = [(one["weight"], *run_verify(names, one["tree"], one["final"])) for one in rounds]
        alpha = [sum(w for w, _, leaves in mine if listed(leaves)[i] == 2) for i in range(2)]
        own = alpha, sum(weight * len(tokens) for weight, tokens, _ in mine)
    return got, own


# Two tables over two and over three tokens.
TWO = ([[0.6, 0.4], [0.6, 0.4]], [[0.5, 0.5], [0.5, 0.5]])
THREE = (
    [[0.4, 0.3, 0.3], [0.3, 0.5, 0.2], [0.5, 0.25, 0.25]],
    [[0.2, 0.6, 0.2], [0.1, 0.4, 0.5], [0.25, 0.5, 0.25]],
)


def check_expected_tokens(names):
    expected = find(names, "expected_tokens")
    for (q, p), branching, right in [
        (TWO, [1], 1.9),
        (TWO, [1, 1, 1], 3.439),
        (TWO, [2, 2], 3.0),
        (THREE, [1, 1], 2.2),
        (THREE, [2], 1.95),
        (THREE, [2, 1], 2.63),
        ((THREE[0], THREE[0]), [2, 1], 3.0),
    ]:
        got = float(expected(q, p, 0, branching))
        if not math.isclose(got, right, rel_tol=TOLERANCE):
            idea = "expected-tree" if max(branching) > 1 else "expected-tokens"
            idea = "expected-bonus" if math.isclose(got + 1, right, rel_tol=TOLERANCE) else idea
            raise NotYet(
                idea, f"For {branching} in a small example the answer is {right:.4g}, yours is {got:.4g}."
            )


def check_equal_positions(names):
    compared(names, "chain_equal_positions", [1] * 6, 5.217031)


def check_equal_passes(names):
    compared(names, "chain_equal_passes", [1] * 2, 2.71)


def compared(names, key, chain, right):
    q, p = TWO
    got = find(names, "compare")(q, p, 0, [2, 2])
    if not isinstance(got, dict) or not {"tree", "chain_equal_positions", "chain_equal_passes"} <= set(got):
        raise NotYet("shape", "compare must return a dict with the three keys.")
    known = [(3.0, right)]
    with contextlib.suppress(Exception):
        own = names["expected_tokens"]
        known.append((float(own(q, p, 0, [2, 2])), float(own(q, p, 0, chain))))
    told = (float(got["tree"]), float(got[key]))
    if not any(all(math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(told, pair)) for pair in known):
        raise NotYet(
            key.removeprefix("chain_").replace("_", "-"), f"For the tree [2, 2] you say {told[1]:.4g}."
        )


# -- task 6 ------------------------------------------------------------------------------------------------------------


def check_best_law(names):
    law_of = find(names, "best_path_law")
    for q, p, right in [
        ([0.6, 0.4], [0.5, 0.5], [0.84, 0.16]),
        ([0.6, 0.4], [0.6, 0.4], [0.84, 0.16]),
        ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.575714, 0.364286, 0.06]),
    ]:
        got = vector(law_of(list(q), list(p)), len(q))
        if not near(got, right):
            raise NotYet(
                "best-law-lossless" if near(got, q) else "best-law", f"For q = {q}, p = {p} you get {got}."
            )


def check_proof(names):
    proof = find(names, "proof")
    if not isinstance(proof, dict) or not {"q", "p", "law", "distance"} <= set(proof):
        raise NotYet("shape", "proof must be a dict with q, p, law and distance.")
    if all(value is None for value in proof.values()):
        raise NotYet("not-written")
    size = len(proof["q"])
    q, p, law = (vector(proof[name], size) for name in ("q", "p", "law"))
    if size < 3 or any(min(x) < 0 or abs(sum(x) - 1) > 1e-5 for x in (q, p)):
        raise NotYet("proof")
    if abs(float(proof["distance"]) - sum(abs(a - b) for a, b in zip(law, q)) / 2) > TOLERANCE:
        raise NotYet("proof-distance", f"Your law is {law}.")
    if proof["distance"] < 0.1:
        raise NotYet("proof-small", f"Yours is off by {proof['distance']:.3g}.")


# -- reading answers ---------------------------------------------------------------------------------------------------


def find(names, name):
    if names.get(name) is None:
        raise NotYet("not-written", f"`{name}` is missing.")
    return names[name]


def listed(value):
    """Arrays, tuples and lists as nested lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def vector(value, length):
    values = listed(value)
    if not isinstance(values, list) or len(values) != length:
        raise NotYet("shape", f"A list of {length} numbers is needed, not {value!r}.")
    return [float(item) for item in values]


def near(got, expected):
    return len(got) == len(expected) and all(abs(a - b) <= TOLERANCE for a, b in zip(got, expected))


def proportional(got, expected):
    total, wanted = sum(got), sum(expected)
    return total > 0 and near([x / total for x in got], [x / wanted for x in expected])


def run_flatten(names):
    rows = find(names, "flatten")(example(), 7)
    if not isinstance(rows, dict) or not {"tokens", "parents", "positions"} <= set(rows):
        raise NotYet("shape", "flatten must return a dict with tokens, parents and positions.")
    return {name: listed(value) for name, value in rows.items()}


def run_choice(names, tree):
    """Your choose_child: (index, owed)."""
    answer = find(names, "choose_child")(tree)
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise NotYet("shape", "choose_child must return two things: an index or None, and what is owed.")
    return listed(answer[0]), vector(answer[1], len(tree["q"]))


def run_verify(names, tree, final):
    """Your verify_tree: (tokens, per_leaf)."""
    answer = find(names, "verify_tree")(tree, final)
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise NotYet("shape", "verify_tree must return two things: tokens and counts per leaf.")
    tokens = listed(answer[0])
    if not isinstance(tokens, list):
        raise NotYet("shape", "The tokens must be a list of whole numbers.")
    return tokens, listed(answer[1])


CHECKS = {
    "rows": check_rows,
    "positions": check_positions,
    "mask": check_mask,
    "child-first": check_child_first,
    "child-sibling": check_child_sibling,
    "child-renormalised": check_child_renormalised,
    "child-owed": check_child_owed,
    "child-top": check_child_top,
    "tree-walk": check_tree_walk,
    "tree-correction": check_tree_correction,
    "tree-bonus": check_tree_bonus,
    "tree-leaves": check_tree_leaves,
    "alpha-leaves": check_alpha_leaves,
    "tokens-per-call": check_tokens_per_call,
    "expected-tokens": check_expected_tokens,
    "equal-positions": check_equal_positions,
    "equal-passes": check_equal_passes,
    "best-law": check_best_law,
    "proof": check_proof,
}
