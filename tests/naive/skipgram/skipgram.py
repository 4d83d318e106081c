"""Plain twins of `kernels.skipgram.classic.train_skipgram_classic` and of the blocks of `kernels.skipgram.skipgram`."""

from __future__ import annotations

import numpy as np

from naive.common.pair import bounded, log_loss, rate_at, sigmoid, step_example
from naive.common.rng import draw, draw_alias
from naive.common.windows import Center, centers


def train_skipgram_classic(
    tokens, start, stop, offset, keep, token_key, negative_key, threshold, alias, input_rows, output_rows,
    window, num_negatives, lr_zero, lr_step, loss_every,
):  # fmt: skip
    """Same arguments and results; input_rows and output_rows are float64 and updated in place."""
    found, items = centers(tokens, start, stop, offset, keep, token_key, window)
    loss_sum, examples = 0.0, 0
    for center in found:
        lr = rate_at(center.position, lr_zero, lr_step)
        for distance, row in center.contexts:
            slot = distance + window - (distance > 0)
            counter = (center.position * 2 * window + slot) * num_negatives
            drawn = [draw_alias(draw(int(negative_key), counter + k), threshold, alias) for k in range(num_negatives)]
            labels = [(center.row, 1.0)] + [(negative, 0.0) for negative in drawn if negative != center.row]
            error, loss = step_example(input_rows[row], labels, output_rows, lr)
            input_rows[row] = bounded(input_rows[row] + error)
            if loss_every > 0 and center.position % loss_every == 0:
                loss_sum += loss
                examples += 1
    assert np.isfinite(loss_sum)
    return items, loss_sum, examples


MAX_CENTERS = 24


def cut_blocks(found: list[Center], block: int, most: int = MAX_CENTERS) -> list[list[Center]]:
    """The centers of each stretch of `block` positions, shared out evenly over pieces."""
    stretches: dict[int, list[Center]] = {}
    for center in found:
        stretches.setdefault(center.position // block, []).append(center)
    blocks = []
    for members in stretches.values():
        pieces = -(-len(members) // most)
        for piece in range(pieces):
            begin, end = len(members) * piece // pieces, len(members) * (piece + 1) // pieces
            blocks.append(members[begin:end])
    return blocks


class Steps:
    """What the pairs of one block ask of a table's rows, and how strongly the loss may curve along each row."""

    def __init__(self) -> None:
        self.step: dict[int, np.ndarray] = {}
        self.curvature: dict[int, float] = {}

    def add(self, row: int, step: np.ndarray, curvature: float) -> None:
        self.step[row] = self.step.get(row, 0.0) + step
        self.curvature[row] = self.curvature.get(row, 0.0) + curvature

    def apply(self, table: np.ndarray) -> None:
        """Each row moves once, by its whole step, shortened so that rate times curvature stays within 2."""
        for row, step in self.step.items():
            table[row] = bounded(table[row] + step * min(1.0, 2.0 / max(self.curvature[row], 1e-30)))


def squares(x: np.ndarray) -> float:
    return float(x @ x)


def train_skipgram_block(
    tokens, start, stop, offset, keep, token_key, negative_key, threshold, alias, input_rows, output_rows,
    window, num_negatives, lr_zero, lr_step, loss_every, block, num_shared,
):  # fmt: skip
    """Every pair of a block meets its center once, and each shared negative with the weight num_negatives / num_shared.

    All steps of a block come from the values before it. Grouping equal pairs, as the kernel does, changes no sum. A
    negative that is the center takes no step, but counts for the curvature.
    """
    found, items = centers(tokens, start, stop, offset, keep, token_key, window)
    loss_sum, examples, share = 0.0, 0, num_negatives / num_shared
    for members in cut_blocks(found, block):
        lr = rate_at(members[0].position, lr_zero, lr_step)
        counter = members[0].position * 1024
        shared = [draw_alias(draw(int(negative_key), counter + k), threshold, alias) for k in range(num_shared)]
        is_measured = loss_every > 0 and members[0].position // block % loss_every == 0
        steps, positives, negatives = Steps(), Steps(), Steps()
        for center in members:
            targets = [(center.row, 1.0, 1.0, positives)] + [(row, 0.0, share, negatives) for row in shared]
            for _, row in center.contexts:
                examples += is_measured
                x = input_rows[row]
                for target, label, weight, side in targets:
                    y = output_rows[target]
                    is_met = bool(label) or target != center.row
                    step = lr * weight * (label - sigmoid(float(x @ y))) * is_met
                    steps.add(row, step * y, lr * weight / 4 * squares(y))
                    side.add(target, step * x, lr * weight / 4 * squares(x))
                    if is_measured and is_met:
                        loss_sum += weight * log_loss(float(x @ y) if label else -float(x @ y))
        steps.apply(input_rows)
        positives.apply(output_rows)
        negatives.apply(output_rows)
    return items, loss_sum, examples
