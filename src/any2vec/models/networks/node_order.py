"""What a network learns from, with the nodes in another order.

Legend: N nodes, D features, K rows taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from any2vec.data.attributed.edge_features import FeaturedCsr
from any2vec.data.attributed.features import FeatureRows
from any2vec.plan.sharding.node_orders import places_of, reordered

if TYPE_CHECKING:
    from any2vec.models.networks.batches import LearnerData


class OrderedFeatures(NamedTuple):
    """Features as they are kept, and the order in which they are asked for: nothing is copied."""

    features: FeatureRows
    order_N: np.ndarray
    """integers: the row at each place"""

    @property
    def columns(self) -> int:
        """D"""
        return self.features.columns

    def take(self, ids: np.ndarray) -> np.ndarray:
        """float32 (K, D): the rows at places, integers (K,) in [0, N)."""
        return self.features.take(self.order_N[ids])


def in_order(data: LearnerData, order_N: np.ndarray) -> LearnerData:
    """The same graph, features, classes and parts, of which node p is order[p]; integers (N,), each node once."""
    assert isinstance(data.features, FeatureRows)
    place_N = places_of(order_N)
    links = data.links
    if links is not None:  # pairs of nodes, and whether they have a direction
        links = links._replace(**{part: place_N[getattr(links, part)] for part in links._fields[:-1]})
    csr = data.csr
    csr = csr.again(reordered(csr.numbered(), order_N)) if isinstance(csr, FeaturedCsr) else reordered(csr, order_N)
    return data._replace(
        csr=csr, features=OrderedFeatures(data.features, order_N), links=links,
        labels=data.labels[order_N] if len(data.labels) else data.labels,
        rows={part: place_N[rows] for part, rows in data.rows.items()},
    )  # fmt: skip
