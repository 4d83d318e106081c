"""What a negative counts where negatives are drawn only from those partitions that are in memory.

With all rows in memory each of the n pairs whose input row is u draws k negatives from the noise P: row v is expected
n k P(v) times. With some partitions there, v can only be drawn while its partition is: always, where that is u's own,
in few states else. So draws are weighted: let N(i) be the pairs of an epoch whose input is of partition i, and A(i, q)
those of them that are trained while q is there; what a state draws from q by its own noise, P restricted to the
partitions there and made 1 again, counts

    w(i, q) = P(there) N(i) / A(i, q)

to such a pair. Over the epoch each row v of q is then expected

    sum over states of N(i, state) k P(v) / P(there) w(i, q) = k P(v) N(i) / A(i, q) A(i, q) = N(i) k P(v)

times, as in memory, for each partition of inputs exactly; all weights are 1 where all partitions are there.

Source: ours; the restricted noise itself is what PyTorch-BigGraph (Lerer et al., MLSys 2019, section 3.1) and Marius
(Mohoney et al., OSDI 2021, section 5.1) draw from, unweighted.

Legend: P partitions, H those that are there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.plan.bucket_orders import BucketOrder


def meetings(order: BucketOrder, count_PP: np.ndarray) -> np.ndarray:
    """A: float64 (P, P), pairs with their input in partition i that are trained while partition q is there.

    count_PP: pairs of each bucket (input's partition, output's).
    """
    found_PP = np.zeros(count_PP.shape)
    for state in order.states:
        held = list(state.held)
        for i, j in state.buckets:
            found_PP[i, held] += count_PP[i, j]
    return found_PP


def noise_weights(held: Sequence[int], mass_P: np.ndarray, count_PP: np.ndarray, meeting_PP: np.ndarray) -> np.ndarray:
    """w of the partitions that are there, float32 (H, H): inputs' partition, negative's.

    mass_P: noise of each partition, of any sum. A partition that inputs of another never meet has no weight for them.
    """
    where = np.ix_(held, held)
    there = mass_P[list(held)].sum() / mass_P.sum()
    pairs_H = count_PP.sum(axis=1)[list(held)].astype(np.float64)
    met_HH = meeting_PP[where]
    share_HH = np.divide(pairs_H[:, None], met_HH, out=np.zeros_like(met_HH), where=met_HH > 0)
    return (there * share_HH).astype(np.float32)
