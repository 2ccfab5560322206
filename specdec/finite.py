"""Where a NaN or an infinity in the logits comes from: a diagnosing pass that names the layer.

Looking at every layer's output in every pass would cost time and a read of the device per layer. So a pass
only tells whether its logits are finite (`Pass.finite`, one number on the device), and when they are not, it
is run once more with all layers tapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from specdec.kv_cache import Cache
    from specdec.verifier import Verifier

TRY = "check the weights and the precision, nothing that this pass gives can be trusted"


def first_fault(verifier: Verifier, tokens: Tensor, cache: Cache | None = None, **options: Any) -> str:
    """One sentence that names the first layer whose output is not finite, and the position where.

    tokens, cache and options (positions, mask, ancestors) are those of the pass whose logits were not finite.
    Runs that pass again and forgets its rows; rows that wait in the cache are forgotten, too.
    """
    if cache is not None:
        cache.rollback(cache.lengths)
    layers = len(verifier.layers)
    found = verifier.forward(
        tokens, cache, taps=tuple(range(layers)), wait=cache is not None, check=False, **options
    )
    if cache is not None:
        cache.rollback(cache.lengths)
    stages = {"the embedding": found.taps[0]}
    stages |= {f"layer {i - 1} (of {layers}, counted from 0)": found.taps[i] for i in range(1, layers)}
    # The last layer's output is nobody's input; of it there is only what the final norm makes.
    stages[f"layer {layers - 1} (of {layers}, counted from 0) or the final norm"] = found.hidden
    stages["the output matrix"] = found.logits
    for stage, x in stages.items():
        bad = ~x.isfinite().all(-1)  # [B, n]
        if bad.any():
            b, row = (int(i) for i in bad.nonzero()[0])
            return f"{stage} puts out NaN or infinite numbers in row {row} of sequence {b}: {TRY}"
    return f"the logits were NaN or infinite, but not when the pass was run again: {TRY}"
