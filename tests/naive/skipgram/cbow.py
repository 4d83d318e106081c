"""Plain twins of `kernels.skipgram.classic.train_cbow_classic` and of the blocks of `kernels.skipgram.cbow`."""

from __future__ import annotations

import numpy as np

from naive.common.pair import bounded, log_loss, rate_at, sigmoid, step_example
from naive.common.rng import draw, draw_alias
from naive.common.windows import centers
from naive.skipgram.skipgram import Steps, cut_blocks, squares

MAX_CENTERS = 48


def train_cbow_classic(
    tokens, start, stop, offset, keep, token_key, negative_key, threshold, alias, input_rows, output_rows,
    window, num_negatives, lr_zero, lr_step, loss_every,
):  # fmt: skip
    """Same arguments and results; input_rows and output_rows are float64 and updated in place."""
    found, items = centers(tokens, start, stop, offset, keep, token_key, window)
    loss_sum, examples = 0.0, 0
    for center in found:
        if not center.contexts:
            continue
        lr = rate_at(center.position, lr_zero, lr_step)
        rows = [row for _, row in center.contexts]
        counter = center.position * num_negatives
        drawn = [draw_alias(draw(int(negative_key), counter + k), threshold, alias) for k in range(num_negatives)]
        labels = [(center.row, 1.0)] + [(negative, 0.0) for negative in drawn if negative != center.row]
        error, loss = step_example(np.mean(input_rows[rows], axis=0), labels, output_rows, lr)
        for row in rows:  # a word that stands twice in the window takes the step twice
            input_rows[row] = bounded(input_rows[row] + error)
        if loss_every > 0 and center.position % loss_every == 0:
            loss_sum += loss
            examples += 1
    return items, loss_sum, examples


def train_cbow_block(
    tokens, start, stop, offset, keep, token_key, negative_key, threshold, alias, input_rows, output_rows,
    window, num_negatives, lr_zero, lr_step, loss_every, block, num_shared,
):  # fmt: skip
    """Each center of a block meets its own row once, and each shared negative with weight num_negatives / num_shared.

    All steps of a block come from the values before it, and are shortened as in skip-gram's blocks.
    """
    found, items = centers(tokens, start, stop, offset, keep, token_key, window)
    loss_sum, examples, share = 0.0, 0, num_negatives / num_shared
    for members in cut_blocks(found, block, MAX_CENTERS):
        lr = rate_at(members[0].position, lr_zero, lr_step)
        counter = members[0].position * 1024
        shared = [draw_alias(draw(int(negative_key), counter + k), threshold, alias) for k in range(num_shared)]
        is_measured = loss_every > 0 and members[0].position // block % loss_every == 0
        steps, positives, negatives = Steps(), Steps(), Steps()
        for center in members:
            rows = [row for _, row in center.contexts]
            if not rows:
                continue
            examples += is_measured
            mean = np.mean(input_rows[rows], axis=0)
            error, curvature = np.zeros_like(mean), 0.0
            targets = [(center.row, 1.0, 1.0, positives)] + [(row, 0.0, share, negatives) for row in shared]
            for target, label, weight, side in targets:
                y = output_rows[target]
                dot = float(mean @ y)
                is_met = bool(label) or target != center.row
                step = lr * weight * (label - sigmoid(dot)) * is_met
                error += step * y
                curvature += lr * weight / 4 * squares(y)
                side.add(target, step * mean, lr * weight / 4 * squares(mean))
                if is_measured and is_met:
                    loss_sum += weight * log_loss(dot if label else -dot)
            for row in rows:
                steps.add(row, error, curvature)
        steps.apply(input_rows)
        positives.apply(output_rows)
        negatives.apply(output_rows)
    return items, loss_sum, examples
