"""Plain twins of `any2vec.kernels.skipgram.pairs`, pair by pair in float64."""

from __future__ import annotations

from naive.common.pair import log_loss, rate_at, sigmoid
from naive.common.rng import draw, draw_alias
from naive.common.windows import centers
from naive.skipgram.skipgram import Steps, squares

PAIRS = 32


def list_pairs(tokens, start, stop, offset, keep, token_key, window):
    """(context, center) of each center's window."""
    found, _ = centers(tokens, start, stop, offset, keep, token_key, window)
    return [(row, center.row) for center in found for _, row in center.contexts]


def drawn(key, position, noise, num_shared):
    """(slot, partition) of each negative of the block at a position."""
    found = []
    for k in range(num_shared):
        counter = 2 * (1024 * position + k)
        part = draw_alias(draw(int(key), counter), noise.threshold_H, noise.alias_H)
        own = slice(int(noise.first_row_H[part]), int(noise.first_row_H[part] + noise.size_H[part]))
        row = draw_alias(draw(int(key), counter + 1), noise.threshold_V[own], noise.alias_V[own])
        found.append((int(noise.first_slot_H[part]) + row, part))
    return found


def train_pairs(
    slots, start, stop, before, key, noise, rows, num_negatives, lr_zero, lr_step, loss_every, num_shared
):  # fmt: skip
    """Same arguments and results; rows are float64 (slots, 2, dim), of input and output, updated in place.

    Each pair meets its center once, and each shared negative with its share and the weight of the two partitions. All
    steps of a block come from the values before it.
    """
    loss_sum, examples, share = 0.0, 0, num_negatives / num_shared
    for first in range(start, stop, PAIRS):
        position = before + first
        lr = rate_at(position, lr_zero, lr_step)
        is_measured = loss_every > 0 and position // PAIRS % loss_every == 0
        inputs, positives, negatives = Steps(), Steps(), Steps()
        shared = drawn(key, position, noise, num_shared)
        for context, center in slots[first : min(stop, first + PAIRS)]:
            own = noise.held_B[context // noise.block_rows]
            targets = [(center, 1.0, 1.0, positives)]
            targets += [
                (slot, 0.0, share * float(noise.weight_HH[own, part]) * (slot != center), negatives)
                for slot, part in shared
            ]
            x = rows[context, 0]
            for slot, label, weight, side in targets:
                y = rows[slot, 1]
                dot = float(x @ y)
                step = lr * weight * (label - sigmoid(dot))
                inputs.add(context, step * y, lr * weight / 4 * squares(y))
                side.add(slot, step * x, lr * weight / 4 * squares(x))
                if is_measured:
                    loss_sum += weight * log_loss(dot if label else -dot)
            examples += is_measured
        inputs.apply(rows[:, 0])
        positives.apply(rows[:, 1])
        negatives.apply(rows[:, 1])
    return loss_sum, examples
