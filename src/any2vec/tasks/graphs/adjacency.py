"""Where lists of neighbors lie: all in memory, or in the graph's folder, some of them in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from any2vec.data.attributed.graph import AttributedGraph, is_attributed
from any2vec.errors import InputError
from any2vec.models.networks.config.base import GraphNetwork, objective_name
from any2vec.models.networks.sizing import FLOAT
from any2vec.tasks.graphs.options import CacheOptions
from any2vec.tasks.graphs.planning import NetworkPlan, needed_parts, plan_network, with_lists
from any2vec.units import size

if TYPE_CHECKING:
    from any2vec.models.networks.batches import LearnerData
    from any2vec.models.networks.learner import GraphLearner
    from any2vec.train.spec import RunSpec

_SHARE = 4
"""of what is free, one part in so many that lists in memory have by default"""


def check_lists(spec: RunSpec) -> None:
    """Raise InputError where the lists of this run cannot be read from the disk."""
    model = spec.model
    if spec.storage.memory is None:
        raise InputError("adjacency disk reads lists where memory is small; give a budget, like --memory 2GB.")
    if model.name == "rgcn":
        raise InputError("adjacency disk is not for rgcn: its edges are sorted by type in memory; leave it out.")
    if model.sampling != "neighbors":
        why = {"labor": ": it looks at each neighbor of a node"}.get(model.sampling, ": it takes whole lists")
        raise InputError(f"adjacency disk is for sampling neighbors, got {model.sampling}{why}; leave it out.")
    if objective_name(model) != "classes":
        raise InputError(
            f"adjacency disk is for objective classes, got {model.objective}: it goes along all edges; leave it out."
        )
    if model.batch_order != "random":
        raise InputError(
            f"adjacency disk is for batch_order random, got {model.batch_order}: it goes along all edges; leave it out."
        )
    if not isinstance(spec.data, AttributedGraph) and not is_attributed(spec.data):
        raise InputError(
            "adjacency disk reads lists from a graph folder; write one with any2vec graph build, and give that."
        )


def plan_of(
    model: GraphNetwork, metadata: Mapping[str, Any], budget_bytes: int, process_bytes: int, threads: int,
    cache: CacheOptions,
) -> NetworkPlan:  # fmt: skip
    """What a run keeps in memory, lists of neighbors first: a row of features is larger than most of them.

    Raises:
        InputError: as `plan_network`.
    """
    budget = budget_bytes, process_bytes, threads, cache.num_ahead
    if cache.adjacency != "disk":
        return plan_network(model, metadata, *budget)
    none, whole, found = with_lists(model, metadata, 0), FLOAT * metadata["num_entries"], cache.list_bytes
    if found is None:
        parts, _ = needed_parts(model, none, process_bytes, threads)
        found = max(0, budget_bytes - sum(parts.values())) // _SHARE
    found = min(found, whole)
    plan = plan_network(model, with_lists(model, metadata, found), *budget)
    sentence = f"{size(found)} of {size(whole)} of lists in memory, the others on disk"
    return plan._replace(list_bytes=found, adjacency=sentence)


def learner_of(
    model: GraphNetwork, data: LearnerData, seed: int, threads: int, plan: NetworkPlan, graph: AttributedGraph
) -> GraphLearner:
    """The learner of a run; `data.csr` has the entries of the graph's folder where some lists are on disk."""
    from any2vec.models.networks.hot_rows import most_useful_lists
    from any2vec.models.networks.learner import GraphLearner
    from any2vec.sampling.disk_neighbors import CachedLists

    lists = None
    if plan.list_bytes is not None:
        lists = CachedLists(data.csr, graph.open_adjacency(), most_useful_lists(data.csr, plan.list_bytes))
    return GraphLearner(model, data, seed, threads, plan.inference_bytes, lists)
