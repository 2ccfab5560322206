"""Wrong and right solutions of exercise 3, as students would write them; all else is the reference solution.

WRONG: {what is wrong: (changed cells, {check lost: idea named})}. RIGHT: {style: changed cells}.
"""

ROWS = """
def flatten(tree, cached):
    queue, depth = [(tree, -1)], [0]
    for row, (node, parent) in enumerate(queue):
        for child in node["children"]:
            queue.append((child, row))
            depth.append(depth[row] + 1)
    return {{
        "tokens": [node["token"] for node, _ in queue],
        "parents": [parent for _, parent in queue],
        "positions": {positions},
    }}


def ancestor_mask(tree):
    parents = flatten(tree, 0)["parents"]
    size = len(parents)
    depth = [0] * size
    for row in range(1, size):
        depth[row] = depth[parents[row]] + 1
    def path(row):
        return [] if row == -1 else [row, *path(parents[row])]
    return [[{sees} for j in range(size)] for i in range(size)]
"""
CHILD = """
def choose_child(node):
    q, p = list(node["q"]), list(node["p"])
    owed, left = list(q), list(p)
    for index, child in enumerate(node["children"]):
        x, u = child["token"], child["coin"]
        if node["drawn"] == "top":
            p_x = {top}
        else:
            p_x = {sampled}
        if {keep}:
            return index, owed
        before = owed
        rest = [max(0.0, a - b) for a, b in zip(owed, p_x)]
        total = sum(rest) or 1.0
        owed = {owed}
        left[x] = 0.0
    return None, {result}
"""
TREE = """
def verify_tree(tree, final):
    node, kept = tree, []
    while True:
        index, owed = choose_child(node)
        if index is None{stop}:
            break
        node, above = node["children"][index], node
        kept.append(node["token"])
    def leaves(node, path):
        if not node["children"]:
            yield path
        for child in node["children"]:
            yield from leaves(child, [*path, child["token"]])
    per_leaf = []
    for path in leaves(tree, []):
        same = 0
        while same < len(kept) and path[same] == kept[same]:
            same += 1
        per_leaf.append({leaf})
    return {tokens}, per_leaf
"""
BEST_PATH = """
def verify_tree(tree, final):
    accepted = [(0, 1.0, [], tree)]
    def visit(node, path, probability):
        left = list(node["p"])
        for child in node["children"]:
            x = child["token"]
            if child["coin"] * left[x] / sum(left) < node["q"][x]:
                chance = probability * node["q"][x]
                accepted.append((len(path) + 1, chance, path + [x], child))
                visit(child, path + [x], chance)
            left[x] = 0.0
    visit(tree, [], 1.0)
    _, _, kept, node = max(accepted, key=lambda one: {order})
    per_leaf = []
    def count(node, path):
        if not node["children"]:
            same = [a == b for a, b in zip(path, kept)] + [False]
            per_leaf.append(same.index(False))
        for child in node["children"]:
            count(child, path + [child["token"]])
    count(tree, [])
    owed = {owed}
    return kept + [draw(owed, final)], per_leaf
"""
MEASURE = """
def measure(rounds):
    alpha, mean = [], 0.0
    for one in rounds:
        tokens, per_leaf = verify_tree(one["tree"], one["final"])
        depth, node = 0, one["tree"]
        while node["children"]:
            depth, node = depth + 1, node["children"][0]
        alpha = alpha or [0.0] * len(per_leaf)
        weight = {weight}
        mean += weight * {tokens}
        alpha = [a + weight * {leaf} for a, count in zip(alpha, per_leaf)]
    return {{"alpha": alpha, "tokens_per_call": mean}}
"""
EXPECTED = """
def moves(q, p, k):
    law = [0.0] * len(q)
    def go(owed, left, chance, k):
        total = sum(left)
        if not k or total <= 0:
            return
        p_now = [value / {total} for value in left]
        rest = [max(0.0, a - b) for a, b in zip(owed, p_now)]
        scale = sum(rest) or 1.0
        for x in range(len(q)):
            if left[x] > 0:
                kept = min(1.0, owed[x] / p_now[x])
                law[x] += chance * left[x] / total * kept
                go({owed}, [0.0 if t == x else v for t, v in enumerate(left)],
                   chance * left[x] / total * (1 - kept), k - 1)
    go(q, p, 1.0, k)
    return law

def expected_tokens(q, p, last, branching):
    value = [1.0] * len(q)
    for k in reversed(branching):
        value = [1 + sum(a * b for a, b in zip(moves(q[t], p[t], k), value)) for t in range(len(q))]
    return {result}

def compare(q, p, last, branching):
    nodes, leaves = 0, 1
    for k in branching:
        leaves *= k
        nodes += leaves
    depth = len(branching)
    return {{
        "tree": expected_tokens(q, p, last, branching),
        "chain_equal_positions": expected_tokens(q, p, last, [1] * ({positions})),
        "chain_equal_passes": expected_tokens(q, p, last, [1] * ({passes})),
    }}
"""
BEST = """
def best_path_law(q, p):
    V, law = len(q), [0.0] * len(q)
    owed = [max(0.0, a - b) for a, b in zip(q, p)]
    for x in range(V):
        for y in range(V):
            if {skip}:
                continue
            p_y = {p_y}
            pair = {pair}
            a, b = min(1, q[x] / p[x]), min(1, q[y] / p_y)
            law[{winner}] += pair * a * b
            law[x] += pair * a * (1 - b)
            law[y] += pair * b * (1 - a)
            for t in range(V):
                law[t] += pair * (1 - a) * (1 - b) * {none}
    return law
"""


def rows(positions: str = "[cached + d for d in depth]", sees: str = "j in path(i)") -> dict[str, str]:
    return {"rows_code": ROWS.format(positions=positions, sees=sees)}


def child(**changes: str) -> dict[str, str]:
    right = {
        "top": "[float(t == x) for t in range(len(p))]",
        "sampled": "[value / sum(left) for value in left]",
        "keep": "u * p_x[x] < owed[x]",
        "owed": "[value / total for value in rest]",
        "result": "owed",
    }
    return {"child_code": CHILD.format(**right | changes)}


def tree(**changes: str) -> dict[str, str]:
    right = {"stop": "", "leaf": "same", "tokens": "kept + [draw(owed, final)]"}
    return {"tree_code": TREE.format(**right | changes)}


def best_path(order: str = "one[:2]", owed: str = "choose_child(node)[1]") -> dict[str, str]:
    return {"tree_code": BEST_PATH.format(order=order, owed=owed)}


def measure(**changes: str) -> dict[str, str]:
    right = {"weight": 'one["weight"]', "tokens": "len(tokens)", "leaf": "(count == depth)"}
    return {"measure_code": MEASURE.format(**right | changes)}


def expected(**changes: str) -> dict[str, str]:
    right = {
        "total": "total",
        "owed": "[value / scale for value in rest]",
        "result": "value[last]",
        "positions": "nodes",
        "passes": "depth",
    }
    return {"expected_code": EXPECTED.format(**right | changes)}


def best(**changes: str) -> dict[str, str]:
    right = {
        "skip": "x == y or not p[x] or not p[y]",
        "p_y": "p[y] / (1 - p[x])",
        "pair": "p[x] * p[y] / (1 - p[x])",
        "winner": "x if q[x] >= q[y] else y",
        "none": "owed[t] / (sum(owed) or 1)",
    }
    return {"best_code": BEST.format(**right | changes)}


# M15 as it is usually written: the siblings against q, and one residual at the end.
SAME_Q = {"owed": "before", "result": "[v / (sum(rest) or 1) for v in rest] if node['children'] else owed"}
RESIDUAL = """[v / sum(max(0.0, a - b) for a, b in zip(node["q"], node["p"]))
            for v in (max(0.0, a - b) for a, b in zip(node["q"], node["p"]))
           ] if node["children"] else node["q"]"""
DEPTH_FIRST = """
def flatten(tree, cached):
    tokens, parents, positions = [], [], []
    def visit(node, parent, position):
        row = len(tokens)
        tokens.append(node["token"]), parents.append(parent), positions.append(position)
        for child in node["children"]:
            visit(child, row, position + 1)
    visit(tree, -1, cached)
    return {"tokens": tokens, "parents": parents, "positions": positions}

def ancestor_mask(tree):
    parents, mask = flatten(tree, 0)["parents"], []
    for row, parent in enumerate(parents):
        seen = list(mask[parent]) if row else [0] * len(parents)
        seen[row] = 1
        mask.append(seen)
    return mask
"""


def lose(*names: str, **ideas: str) -> dict[str, str]:
    return {name: name for name in names} | {name.replace("_", "-"): idea for name, idea in ideas.items()}


WRONG = {
    "rows in depth-first order": ({"rows_code": DEPTH_FIRST}, lose("rows")),
    "positions count rows": (
        rows(positions="[cached + row for row in range(len(queue))]"),
        lose(positions="positions-row"),
    ),
    "positions begin at 0": (rows(positions="depth"), lose("positions")),
    "the root counted as cached": (rows(positions="[cached + d + 1 for d in depth]"), lose("positions")),
    "M17, siblings see each other": (
        rows(sees="j in path(i) or parents[i] == parents[j]"),
        lose(mask="mask-siblings"),
    ),
    "M17, the mask of a chain": (rows(sees="j <= i"), lose(mask="mask-siblings")),
    "M17, everything above": (rows(sees="j == i or depth[j] < depth[i]"), lose(mask="mask-siblings")),
    "the mask without its diagonal": (rows(sees="j in path(i)[1:]"), lose(mask="mask-self")),
    "only the parent is seen": (rows(sees="j in path(i)[:2]"), lose("mask")),
    "the mask transposed": (rows(sees="i in path(j)"), lose("mask")),
    "M05, the ratio upside down": (child(keep="u * owed[x] < p_x[x]"), lose(child_first="child-inverted")),
    "M04, q alone": (child(keep="u < owed[x]"), lose(child_first="child-ignores-draft")),
    "not strict": (child(keep="u * p_x[x] <= owed[x]"), lose(child_first="child-strict")),
    "M15, siblings against the same q": (child(**SAME_Q), lose("child-sibling")),
    "M15, and the correction from q": (
        child(owed="before"),
        lose("child-sibling", child_owed="child-last"),
    ),
    "M02, what is owed is not divided by its sum": (
        child(owed="rest"),
        lose(child_sibling="child-clamped"),
    ),
    "a sampled child taken out of q": (
        child(owed="[0.0 if t == x else v / (1 - before[x]) for t, v in enumerate(before)]"),
        lose(child_sibling="child-zeroed"),
    ),
    "the siblings' p is not renormalised": (child(sampled="left"), lose("child-renormalised")),
    "the siblings' p is p": (child(sampled="p"), lose("child-renormalised")),
    "M15 and p": (
        child(sampled="p", **SAME_Q),
        lose("child-sibling", "child-renormalised"),
    ),
    "the last rejection forgotten": (
        child(result="before if node['children'] else owed"),
        lose(child_owed="child-last"),
    ),
    "M06, q comes back as owed": (child(result="q"), lose(child_owed="child-last")),
    "the residual of q and p comes back": (child(result=RESIDUAL), lose("child-owed")),
    "no answer at a leaf": (
        child(result="owed if node['children'] else [1 / len(q)] * len(q)"),
        lose(child_owed="child-leaf"),
    ),
    "M16, top-k with the softmax": (child(top="p"), lose(child_top="child-softmax")),
    "M16, top-k as if sampled": (
        child(top="[value / sum(left) for value in left]"),
        lose(child_top="child-softmax"),
    ),
    "M14, the longest of the accepted paths": (best_path(), lose(tree_walk="tree-best")),
    "M14, the first of the longest": (best_path(order="one[0]"), lose(tree_walk="tree-best")),
    "M14, and the residual of q and p": (
        best_path(owed=RESIDUAL),
        lose("tree-correction", tree_walk="tree-best"),
    ),
    "the walk stops after one level": (tree(stop=" or len(kept) == 1"), lose("tree-walk", "tree-bonus")),
    "M06, the correction from q": (
        tree(tokens='kept + [draw(node["q"], final)]'),
        lose(tree_correction="tree-correction-q"),
    ),
    "the correction from the residual of q and p": (
        tree(tokens=f"kept + [draw({RESIDUAL}, final)]"),
        lose("tree-correction"),
    ),
    "M08, no bonus": (
        tree(tokens="kept + ([draw(owed, final)] if node['children'] else [])"),
        lose("tree-bonus"),
    ),
    "M08, the bonus from the row before": (
        tree(tokens="kept + [draw(owed if node['children'] else above['q'], final)]"),
        lose(tree_bonus="tree-bonus-row"),
    ),
    "leaves are all or nothing": (tree(leaf="int(same == len(path))"), lose("tree-leaves")),
    "leaves hold shares": (tree(leaf="same / len(path)"), lose("tree-leaves")),
    "a leaf counts whatever is on the walk": (
        tree(leaf="sum(a == b for a, b in zip(path, kept))"),
        lose("tree-leaves"),
    ),
    "alpha counts accepted tokens": (measure(leaf="(count / depth)"), lose("alpha-leaves")),
    "alpha counts touched paths": (measure(leaf="(count > 0)"), lose("alpha-leaves")),
    "M11, tokens without the last one": (
        measure(tokens="(len(tokens) - 1)"),
        lose(tokens_per_call="tokens-accepted"),
    ),
    "tokens per leaf": (measure(tokens="sum(per_leaf)"), lose("tokens-per-call")),
    "weights ignored": (measure(weight="1 / len(rounds)"), lose("alpha-leaves", "tokens-per-call")),
    "the expected tokens lack the last one": (
        expected(result="value[last] - 1"),
        lose(expected_tokens="expected-bonus"),
    ),
    "M15 in the mean": (expected(owed="owed"), lose(expected_tokens="expected-tree")),
    "the mean with p not renormalised": (expected(total="sum(p)"), lose(expected_tokens="expected-tree")),
    "M18, the tree's depth for its positions": (expected(positions="depth"), lose("equal-positions")),
    "M18, leaves for positions": (expected(positions="leaves"), lose("equal-positions")),
    "M18, every path counted": (expected(positions="leaves * depth"), lose("equal-positions")),
    "M18, nodes for passes": (expected(passes="nodes"), lose("equal-passes")),
    "M18, the chains swapped": (
        expected(positions="depth", passes="nodes"),
        lose("equal-positions", "equal-passes"),
    ),
    "the root counted as a draft": (expected(positions="nodes + 1"), lose("equal-positions")),
    "pairs with replacement": (
        best(pair="p[x] * p[y]", p_y="p[y]"),
        lose(best_law="best-law-replaced"),
    ),
    "the second child divided by p": (best(p_y="p[y]"), lose(best_law="best-law-plain")),
    "the likelier one loses": (best(winner="y if q[x] >= q[y] else x"), lose("best-law")),
    "none accepted gives nothing": (best(none="0"), lose("best-law")),
    "none accepted gives q": (best(none="q[t]"), lose("best-law")),
    "a lossless law": (
        {"best_code": "def best_path_law(q, p):\n    return list(q)"},
        lose(best_law="best-law-lossless", proof="proof-small"),
    ),
    "a proof that is too near": (
        {
            "proof_code": """
law = best_path_law(Q[1], P[1])
proof = {"q": Q[1], "p": P[1], "law": law, "distance": sum(abs(a - b) for a, b in zip(law, Q[1])) / 2}
"""
        },
        lose(proof="proof-small"),
    ),
    "a distance of twice the size": (
        {
            "proof_code": """
law = best_path_law(Q[0], CLOSE[0])
proof = {"q": Q[0], "p": CLOSE[0], "law": law, "distance": sum(abs(a - b) for a, b in zip(law, Q[0]))}
"""
        },
        lose(proof="proof-distance"),
    ),
    "an invented law": (
        {
            "proof_code": """
proof = {"q": Q[0], "p": CLOSE[0], "law": [0.3, 0.25, 0.25, 0.12, 0.08], "distance": 0.2}
"""
        },
        lose("proof"),
    ),
}

RIGHT = {
    "every helper by another name": (rows() | child() | tree() | measure() | expected() | best()),
    "NumPy throughout": {
        "rows_code": """
import numpy as np
def flatten(tree, cached):
    nodes, parents = [tree], [-1]
    for i, node in enumerate(nodes):
        nodes += node["children"]
        parents += [i] * len(node["children"])
    return {"tokens": np.array([n["token"] for n in nodes]), "parents": np.array(parents),
            "positions": cached + ancestor_mask(tree).sum(1) - 1}

def ancestor_mask(tree):
    nodes, parents = [tree], [-1]
    for i, node in enumerate(nodes):
        nodes += node["children"]
        parents += [i] * len(node["children"])
    mask = np.eye(len(nodes), dtype=bool)
    for i, parent in enumerate(parents[1:], start=1):
        mask[i] |= mask[parent]
    return mask
""",
        "child_code": """
def choose_child(node):
    owed, left = np.array(node["q"]), np.array(node["p"])
    for i, child in enumerate(node["children"]):
        x = child["token"]
        p = np.eye(len(left))[x] if node["drawn"] == "top" else left / left.sum()
        if child["coin"] < owed[x] / p[x]:
            return np.int64(i), owed
        owed = np.clip(owed - p, 0, None)
        owed /= owed.sum()
        left[x] = 0
    return None, owed
""",
        "tree_code": """
def verify_tree(tree, final):
    node, kept = tree, []
    while (step := choose_child(node))[0] is not None:
        node = node["children"][int(step[0])]
        kept.append(node["token"])
    last = int(np.searchsorted(np.cumsum(step[1]), final, side="right"))
    def walk(node, path):
        if not node["children"]:
            return [path]
        return [leaf for child in node["children"] for leaf in walk(child, path + [child["token"]])]
    paths = np.array(walk(tree, []))
    same = paths[:, : len(kept)] == np.array(kept, dtype=int)
    return np.array([*kept, last]), np.cumprod(same, axis=1).sum(axis=1)
""",
        "measure_code": """
def measure(rounds):
    weights = np.array([one["weight"] for one in rounds])
    results = [verify_tree(one["tree"], one["final"]) for one in rounds]
    leaves = np.array([per_leaf for _, per_leaf in results])
    depth = (max(flatten(rounds[0]["tree"], 0)["positions"]))
    return {"alpha": weights @ (leaves == depth),
            "tokens_per_call": weights @ np.array([len(t) for t, _ in results])}
""",
    },
    "single precision": {
        "child_code": """
import numpy as np
def choose_child(node):
    owed, left = np.float32(node["q"]), np.float32(node["p"])
    for i, child in enumerate(node["children"]):
        x = child["token"]
        p = np.zeros_like(left)
        p[x] = 1
        if node["drawn"] == "sampled":
            p = left / left.sum()
        if np.float32(child["coin"]) * p[x] < owed[x]:
            return i, owed
        owed = np.maximum(owed - p, 0)
        owed = owed / owed.sum()
        left[x] = 0
    return None, owed
""",
    },
    "recursion": {
        "child_code": """
def norm(row):
    return [v / sum(row) for v in row]
def choose_child(node, i=0, owed=None, left=None):
    owed, left = owed or list(node["q"]), left or list(node["p"])
    if i == len(node["children"]):
        return None, owed
    x = node["children"][i]["token"]
    p = norm(left) if node["drawn"] == "sampled" else [0.0] * x + [1.0] + [0.0] * (len(left) - x - 1)
    if node["children"][i]["coin"] * p[x] < owed[x]:
        return i, owed
    rest = norm([max(0.0, a - b) for a, b in zip(owed, p)])
    return choose_child(node, i + 1, rest, left[:x] + [0.0] + left[x + 1:])
""",
        "tree_code": """
def verify_tree(tree, final):
    def down(node):
        index, owed = choose_child(node)
        if index is None:
            return [draw(owed, final)], 0
        tokens, depth = down(node["children"][index])
        return [node["children"][index]["token"]] + tokens, depth + 1
    tokens, depth = down(tree)
    def leaves(node, level, on):
        count = level if on else None
        if not node["children"]:
            return [level]
        out = []
        for child in node["children"]:
            hit = on and level < depth and child["token"] == tokens[level]
            out += leaves(child, level + 1, True) if hit else [level] * size(child)
        return out
    def size(node):
        return sum(map(size, node["children"])) or 1
    return tokens, leaves(tree, 0, True)
""",
        "expected_code": """
from functools import lru_cache
def expected_tokens(q, p, last, branching):
    def reach(owed, left, k):
        out = [0.0] * len(owed)
        if k == 0 or sum(left) == 0:
            return out
        now = [v / sum(left) for v in left]
        res = [max(0.0, a - b) for a, b in zip(owed, now)]
        for x, share in enumerate(now):
            if share:
                keep = min(1.0, owed[x] / share)
                out[x] += share * keep
                if keep < 1 and sum(res):
                    rest = reach([v / sum(res) for v in res], left[:x] + [0.0] + left[x + 1:], k - 1)
                    out = [a + share * (1 - keep) * b for a, b in zip(out, rest)]
        return out
    @lru_cache(None)
    def E(token, level):
        if level == len(branching):
            return 1.0
        moves = reach(list(q[token]), list(p[token]), branching[level])
        return 1.0 + sum(m * E(x, level + 1) for x, m in enumerate(moves))
    return E(last, 0)

def compare(q, p, last, branching):
    nodes = sum(eval("*".join(map(str, branching[: i + 1]))) for i in range(len(branching)))
    names = {"tree": branching, "chain_equal_positions": [1] * nodes}
    names["chain_equal_passes"] = [1] * len(branching)
    return {name: expected_tokens(q, p, last, shape) for name, shape in names.items()} | {"nodes": nodes}
""",
    },
    "everything inside the walk, and no earlier part is called": {
        "tree_code": """
def verify_tree(tree, final):
    here, kept, owed = tree, [], list(tree["q"])
    going = True
    while going and here["children"]:
        going, rest = False, dict(enumerate(here["p"]))
        for child in here["children"]:
            x, mass = child["token"], sum(rest.values())
            if child["coin"] * rest.get(x, 0) / mass < owed[x]:
                here, going = child, True
                kept, owed = kept + [x], list(child["q"])
                break
            left = [max(owed[t] - rest.get(t, 0.0) / mass, 0.0) for t in range(len(owed))]
            owed = [v / sum(left) for v in left]
            del rest[x]
    stack, per_leaf = [(tree, 0, True)], []
    while stack:
        node, count, on = stack.pop()
        if not node["children"]:
            per_leaf.append(count)
        for child in reversed(node["children"]):
            hit = on and count < len(kept) and kept[count] == child["token"]
            stack.append((child, count + hit, hit))
    return tuple(kept + [draw(owed, final)]), per_leaf
""",
    },
    "a class, prints and warnings": {
        "child_code": """
import sys
class Row:
    def __init__(self, node):
        self.q, self.p, self.kind = list(node["q"]), list(node["p"]), node["drawn"]
    def drawn_from(self, x):
        if self.kind == "top":
            return [1.0 * (t == x) for t in range(len(self.p))]
        return [v / sum(self.p) for v in self.p]
    def reject(self, x):
        rest = [max(0, a - b) for a, b in zip(self.q, self.drawn_from(x))]
        self.q = [v / sum(rest) for v in rest]
        self.p[x] = 0
def choose_child(node):
    row = Row(node)
    for i, child in enumerate(node["children"]):
        x = child["token"]
        print("trying", x, file=sys.stderr)
        if child["coin"] < row.q[x] / row.drawn_from(x)[x]:
            print("kept")
            return [i, row.q]
        row.reject(x)
    return [None, row.q]
""",
    },
    "fractions": {
        "best_code": """
from fractions import Fraction as F
def best_path_law(q, p):
    q, p = [F(v) for v in q], [F(v) for v in p]
    owed = [max(F(0), a - b) for a, b in zip(q, p)]
    law = [F(0)] * len(q)
    for x in range(len(q)):
        for y in set(range(len(q))) - {x}:
            if p[x] == 0 or p[y] == 0:
                continue
            py = p[y] / (sum(p) - p[x])
            a, b, w = min(F(1), q[x] / p[x]), min(F(1), q[y] / py), p[x] * py
            for hit_x in (True, False):
                for hit_y in (True, False):
                    pr = w * (a if hit_x else 1 - a) * (b if hit_y else 1 - b)
                    if hit_x and hit_y:
                        law[max((x, y), key=lambda t: q[t])] += pr
                    elif hit_x or hit_y:
                        law[x if hit_x else y] += pr
                    elif sum(owed):
                        law = [v + pr * o / sum(owed) for v, o in zip(law, owed)]
    return law
""",
        "proof_code": """
q = p = [0.5, 0.3, 0.2]
law = best_path_law(q, p)
proof = dict(q=q, p=p, law=law, distance=sum(abs(float(a) - b) for a, b in zip(law, q)) / 2)
""",
    },
}
