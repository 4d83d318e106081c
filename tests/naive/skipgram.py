"""Plain twin of `any2vec.kernels.classic.train_skipgram_classic`."""

from __future__ import annotations

import numpy as np

from naive.pair import bounded, rate_at, step_example
from naive.rng import draw, draw_alias
from naive.windows import centres


def train_skipgram_classic(
    tokens, start, stop, offset, keep, token_key, negative_key, threshold, alias, input_rows, output_rows,
    window, num_negatives, lr_from, lr_to, loss_every,
):  # fmt: skip
    """Same arguments and results; input_rows and output_rows are float64 and updated in place."""
    found, items = centres(tokens, start, stop, offset, keep, token_key, window)
    loss_sum, examples = 0.0, 0
    for centre in found:
        lr = rate_at(centre.index, start, stop, float(lr_from), float(lr_to))
        for distance, row in centre.contexts:
            slot = distance + window - (distance > 0)
            counter = (centre.position * 2 * window + slot) * num_negatives
            drawn = [draw_alias(draw(int(negative_key), counter + k), threshold, alias) for k in range(num_negatives)]
            labels = [(centre.row, 1.0)] + [(negative, 0.0) for negative in drawn if negative != centre.row]
            error, loss = step_example(input_rows[row], labels, output_rows, lr)
            input_rows[row] = bounded(input_rows[row] + error)
            if loss_every > 0 and centre.position % loss_every == 0:
                loss_sum += loss
                examples += 1
    assert np.isfinite(loss_sum)
    return items, loss_sum, examples
