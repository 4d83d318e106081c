"""Huffman codes of a vocabulary, for hierarchical softmax.

Huffman 1952, "A method for the construction of minimum-redundancy codes", by two queues over sorted counts (van
Leeuwen 1976, "On the construction of Huffman trees"). Ties go to the leaf before the inner node, which gives the
shallowest of all optimal trees, and to the higher row before the lower: the codes depend on the counts alone.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit


@jit
def link_huffman(count_V: np.ndarray, order_V: np.ndarray, parent: np.ndarray, bit: np.ndarray) -> None:
    """Build the tree: count_V int64 (V,), >= 0, sum below 2**63; order_V int64 (V,): rows by ascending count.

    Writes parent int64 (2 * V - 1,) and bit uint8 (2 * V - 1,): node r < V is the leaf of row r, node V + i is inner
    node i, made in ascending order of count; the root is the last. O(V).
    """
    n = count_V.size
    weight = np.empty(max(n - 1, 0), np.int64)
    leaf, inner = 0, 0
    for made in range(n - 1):
        weight[made] = 0
        for side in range(2):
            if leaf < n and (inner >= made or count_V[order_V[leaf]] <= weight[inner]):
                node = order_V[leaf]
                weight[made] += count_V[node]
                leaf += 1
            else:
                node = np.int64(n + inner)
                weight[made] += weight[inner]
                inner += 1
            parent[node] = n + made
            bit[node] = np.uint8(side)
    parent[2 * n - 2] = -1
    bit[2 * n - 2] = np.uint8(0)


@jit
def measure_codes(parent: np.ndarray, code_offset: np.ndarray) -> None:
    """code_offset int64 (V + 1,) becomes the running sum of the lengths of the codes. O(V)."""
    n = code_offset.size - 1
    depth = np.zeros(2 * n - 1, np.int32)
    for node in range(2 * n - 3, n - 1, -1):  # a parent is made after its children
        depth[node] = depth[parent[node]] + 1
    code_offset[0] = 0
    for row in range(n):
        length = 0 if n == 1 else depth[parent[row]] + 1
        code_offset[row + 1] = code_offset[row] + length


@jit
def spell_codes(
    parent: np.ndarray, bit: np.ndarray, code_offset: np.ndarray, points: np.ndarray, bits: np.ndarray
) -> None:
    """Write each row's path from the root: points int32 and bits uint8 (code_offset[V],). O(sum of lengths)."""
    n = code_offset.size - 1
    for row in range(n):
        node = np.int64(row)
        for i in range(code_offset[row + 1] - 1, code_offset[row] - 1, -1):
            bits[i] = bit[node]
            node = parent[node]
            points[i] = node - n
    # An inner node's number is its row in the output table: V - 1 of them, the root is V - 2.


def huffman_codes(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of all rows: counts (V,) integers >= 0, in any order, sum below 2**63; V >= 1.

    Returns (code_offset int64 (V + 1,), points int32, bits uint8): the code of row r is bits[code_offset[r]:
    code_offset[r + 1]], from the root down, and `points` at the same places are the inner nodes where those bits are
    decided, rows 0..V - 2 of the output table. Deterministic. O(V log V) time for the sort, then linear; memory O(sum
    of the code lengths), 5 bytes each. For V = 1 the code is empty and nothing could be trained: the caller raises.
    """
    count_V = np.ascontiguousarray(counts, dtype=np.int64)
    num_rows = count_V.size
    # Ascending by count, the higher row first among equals: ids ranked by count keep their shorter codes.
    order_V = np.ascontiguousarray(num_rows - 1 - np.argsort(count_V[::-1], kind="stable"), dtype=np.int64)
    parent, bit = np.empty(2 * num_rows - 1, np.int64), np.empty(2 * num_rows - 1, np.uint8)
    link_huffman(count_V, order_V, parent, bit)
    code_offset = np.empty(num_rows + 1, np.int64)
    measure_codes(parent, code_offset)
    points, bits = np.empty(code_offset[-1], np.int32), np.empty(code_offset[-1], np.uint8)
    spell_codes(parent, bit, code_offset, points, bits)
    return code_offset, points, bits
