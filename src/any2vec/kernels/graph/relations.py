"""Edges of several relations: grouped by relation and target; embeddings mixed of bases, and their gradients.

Arithmetic is exact IEEE in the order of the edges: the same bits from run to run.

Letters: F nodes that aggregate, S edges, R relations, G groups of edges of one relation into one node, B bases, N rows
of a basis, D columns.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit


@jit
def group_by_relation(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, type_S: np.ndarray, cut_R1: np.ndarray, sorted_S: np.ndarray,
    target_S: np.ndarray, stop_S1: np.ndarray, place_F1: np.ndarray, group_S: np.ndarray,
) -> int:  # fmt: skip
    """Sort edges by (relation, target), equal ones in their order; returns G, the number of groups.

    stop int64, neighbor and type integers, types in [0, R). Written: sorted, like neighbor, the neighbors in the new
    order; cut int64 (R + 1,), zeros on entry: the groups of relation r are [cut[r], cut[r + 1]); stop_S1[:G + 1] int64:
    the edges of group g are [stop[g], stop[g + 1]); group[place[i]:place[i + 1]], int32: the groups of node i, by
    relation, place int64 (F + 1,), zeros on entry. target int32 (S,) is scratch.
    """
    num_relations = cut_R1.size - 1
    for j in range(type_S.size):
        cut_R1[type_S[j] + 1] += 1
    for r in range(num_relations):
        cut_R1[r + 1] += cut_R1[r]
    free_R = cut_R1[:-1].copy()
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            at = free_R[type_S[j]]
            free_R[type_S[j]] += 1
            sorted_S[at], target_S[at] = neighbor_S[j], i
    num_groups, start = 0, np.int64(0)
    stop_S1[0] = 0
    for r in range(num_relations):
        stop, cut_R1[r] = cut_R1[r + 1], num_groups
        for at in range(start, stop):
            if at == start or target_S[at] != target_S[at - 1]:
                target_S[num_groups] = target_S[at]
                place_F1[target_S[at] + 1] += 1
                num_groups += 1
            stop_S1[num_groups] = at + 1
        start = stop
    cut_R1[num_relations] = num_groups
    for i in range(place_F1.size - 1):
        place_F1[i + 1] += place_F1[i]
    free_F = place_F1[:-1].copy()
    for g in range(num_groups):
        group_S[free_F[target_S[g]]] = g
        free_F[target_S[g]] += 1
    return num_groups


@jit
def mix_bases(
    stop_G1: np.ndarray, row_S: np.ndarray, type_G: np.ndarray, share_RB: np.ndarray, basis_BND: np.ndarray,
    out_GD: np.ndarray,
) -> None:  # fmt: skip
    """out[g] = mean over the group's edges j of sum over b of share[type[g], b] basis[b, row[j]].

    stop int64, row and type integers, the others of one float type, C order; no group is empty. Source: Schlichtkrull
    et al. 2018 (arXiv 1703.06103), equation 3, for nodes that have no features.
    """
    dim = basis_BND.shape[2]
    one = basis_BND.dtype.type(1)
    for g in range(stop_G1.size - 1):
        size = one / basis_BND.dtype.type(stop_G1[g + 1] - stop_G1[g])
        for d in range(dim):
            out_GD[g, d] = 0
        for b in range(basis_BND.shape[0]):
            share = share_RB[type_G[g], b] * size
            for j in range(stop_G1[g], stop_G1[g + 1]):
                row = row_S[j]
                for d in range(dim):
                    out_GD[g, d] += share * basis_BND[b, row, d]


@jit
def mix_bases_gradient(
    stop_G1: np.ndarray, row_S: np.ndarray, type_G: np.ndarray, share_RB: np.ndarray, basis_BND: np.ndarray,
    grad_GD: np.ndarray, grad_share_RB: np.ndarray, grad_basis_BND: np.ndarray,
) -> None:  # fmt: skip
    """The gradient of `mix_bases`, added to both; that of the shares: float64."""
    dim = basis_BND.shape[2]
    one = basis_BND.dtype.type(1)
    total_D = np.empty(dim, basis_BND.dtype)
    for g in range(stop_G1.size - 1):
        size, relation = one / basis_BND.dtype.type(stop_G1[g + 1] - stop_G1[g]), type_G[g]
        for b in range(basis_BND.shape[0]):
            share = share_RB[relation, b] * size
            total_D[:] = 0
            for j in range(stop_G1[g], stop_G1[g + 1]):
                row = row_S[j]
                for d in range(dim):
                    total_D[d] += basis_BND[b, row, d]
                    grad_basis_BND[b, row, d] += share * grad_GD[g, d]
            change = 0.0
            for d in range(dim):
                change += np.float64(total_D[d]) * np.float64(grad_GD[g, d])
            grad_share_RB[relation, b] += change * size
