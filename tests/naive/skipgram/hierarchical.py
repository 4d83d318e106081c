"""Plain twins of `any2vec.kernels.skipgram.hierarchical` and `kernels.text.huffman`."""

from __future__ import annotations

import heapq

import numpy as np

from naive.common.pair import bounded, log_loss, rate_at, sigmoid
from naive.common.windows import centers


def huffman_lengths(counts: list[int]) -> tuple[int, int]:
    """(total of count * code length, longest code) of a shallowest Huffman code, by a heap."""
    heap = [(count, 0, place) for place, count in enumerate(counts)]
    heapq.heapify(heap)
    total, made = 0, len(counts)
    while len(heap) > 1:
        a, b = heapq.heappop(heap), heapq.heappop(heap)
        total += a[0] + b[0]
        heapq.heappush(heap, (a[0] + b[0], max(a[1], b[1]) + 1, made))
        made += 1
    return total, heap[0][1]


def step_center(x: np.ndarray, path: np.ndarray, bits: np.ndarray, lr: float) -> tuple[np.ndarray, np.ndarray, float]:
    """x (C, D) against the rows of one path (L, D): (steps of x, steps of the path, loss) from these."""
    dots = x @ path.T
    steps = np.array(
        [[(1.0 - int(bit) - sigmoid(dot)) * lr for dot, bit in zip(row, bits, strict=True)] for row in dots]
    )
    loss = sum(log_loss(-dot if bit else dot) for row in dots for dot, bit in zip(row, bits, strict=True))
    return steps @ path, steps.T @ x, loss


def _train(
    tokens, start, stop, offset, keep, token_key, code_offset, points, bits, input_rows, output_rows,
    window, lr_zero, lr_step, loss_every, is_cbow,
):  # fmt: skip
    found, items = centers(tokens, start, stop, offset, keep, token_key, window)
    loss_sum, examples = 0.0, 0
    for center in found:
        if not center.contexts:
            continue
        lr = rate_at(center.position, lr_zero, lr_step)
        code = slice(code_offset[center.row], code_offset[center.row + 1])
        rows = [row for _, row in center.contexts]
        x = input_rows[rows]
        if is_cbow:
            x = x.mean(axis=0, keepdims=True)
        errors, path_steps, loss = step_center(x, output_rows[points[code]], bits[code], lr)
        for place, row in enumerate(rows):
            input_rows[row] = bounded(input_rows[row] + errors[0 if is_cbow else place])
        output_rows[points[code]] = bounded(output_rows[points[code]] + path_steps)
        if loss_every > 0 and center.position % loss_every == 0:
            loss_sum += loss
            examples += len(x)
    return items, loss_sum, examples


def train_skipgram_hierarchical(*arguments):
    """Same arguments as the kernel; the rows are float64 and updated in place."""
    return _train(*arguments, False)


def train_cbow_hierarchical(*arguments):
    """Same arguments as the kernel; the rows are float64 and updated in place."""
    return _train(*arguments, True)
