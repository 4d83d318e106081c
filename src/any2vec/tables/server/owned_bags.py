"""The bags of a batch that servers pool, dealt to the hosts that own their rows.

Legend: H hosts, M ids, P bags, Q bags as dealt: one for each host that owns rows of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

PUSH_BAGS = 1
"""operation of a block: slots, ids of each bag (> 0), gradients of the bags' sums; gives nothing"""


class OwnedBags(NamedTuple):
    """Host h owns `slot_M[id_end_H1[h]:id_end_H1[h + 1]]`, which lie in the bags of `of(h)`. All int64."""

    slot_M: np.ndarray
    """places in their owners' blocks, by host, then in the order of the batch"""
    bag_Q: np.ndarray
    """which bag of the batch"""
    count_Q: np.ndarray
    """how many of the owner's ids are in it, 1 or more"""
    id_end_H1: np.ndarray
    bag_end_H1: np.ndarray

    def of(self, host: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(slots, ids in each bag, the bags) of a host; empty where it owns none."""
        ids = slice(self.id_end_H1[host], self.id_end_H1[host + 1])
        bags = slice(self.bag_end_H1[host], self.bag_end_H1[host + 1])
        return self.slot_M[ids], self.count_Q[bags], self.bag_Q[bags]
