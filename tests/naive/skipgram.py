"""Plain twins of `any2vec.kernels.classic.train_skipgram_classic` and of the blocks of `any2vec.kernels.skipgram`."""

from __future__ import annotations

import numpy as np

from naive.pair import BOUND, bounded, log_loss, rate_at, sigmoid, step_example
from naive.rng import draw, draw_alias
from naive.windows import Centre, centres


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


MAX_CENTRES = 24


def cut_blocks(found: list[Centre], block: int) -> list[tuple[int, int, list[Centre]]]:
    """(stretch, piece, centres): the centres of each stretch of `block` positions, shared out evenly over pieces."""
    stretches: dict[int, list[Centre]] = {}
    for centre in found:
        stretches.setdefault(centre.position // block, []).append(centre)
    blocks = []
    for stretch, members in stretches.items():
        pieces = -(-len(members) // MAX_CENTRES)
        for piece in range(pieces):
            begin, end = len(members) * piece // pieces, len(members) * (piece + 1) // pieces
            blocks.append((stretch, piece, members[begin:end]))
    return blocks


def train_skipgram_block(
    tokens, start, stop, offset, keep, token_key, negative_key, threshold, alias, input_rows, output_rows,
    window, num_negatives, lr_from, lr_to, loss_every, block, num_shared,
):  # fmt: skip
    """Every pair of a block meets its centre once, and each shared negative with the weight num_negatives / num_shared.

    All steps of a block come from the values before it. Grouping equal pairs, as the kernel does, changes no sum.
    """
    found, items = centres(tokens, start, stop, offset, keep, token_key, window)
    loss_sum, examples, share = 0.0, 0, num_negatives / num_shared
    for stretch, piece, members in cut_blocks(found, block):
        lr = rate_at(members[0].index, start, stop, float(lr_from), float(lr_to))
        counter = (stretch * 64 + piece) * 1024
        shared = [draw_alias(draw(int(negative_key), counter + k), threshold, alias) for k in range(num_shared)]
        is_measured = loss_every > 0 and stretch % loss_every == 0
        old_input, old_output = input_rows.copy(), output_rows.copy()
        for centre in members:
            targets = [(centre.row, 1.0, 1.0)] + [(row, 0.0, share) for row in shared if row != centre.row]
            for _, row in centre.contexts:
                examples += is_measured
                for target, label, weight in targets:
                    dot = float(old_input[row] @ old_output[target])
                    step = lr * weight * (label - sigmoid(dot))
                    input_rows[row] += step * old_output[target]
                    output_rows[target] += step * old_input[row]
                    if is_measured:
                        loss_sum += weight * log_loss(dot if label else -dot)
        np.clip(input_rows, -BOUND, BOUND, out=input_rows)
        np.clip(output_rows, -BOUND, BOUND, out=output_rows)
    return items, loss_sum, examples
