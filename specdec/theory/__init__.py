"""The theory floor: NumPy and SciPy only, no torch. Read in this order.

rejection.py   the rule: accept, residual, one chain, the children of one tree node
exact.py       every path a rule can take, added up: is its output the verifier's own?
speedup.py     expected tokens per verifier call, wall time per token, the best draft length
simulate.py    many speculative steps at once on a toy verifier, with the KV ledger
stats.py       does a sample look like q? chi-square, total variation, exact binomial limits
"""
