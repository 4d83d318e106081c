"""From a model and what was found out about its input to the plan of a run over hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from any2vec.kernels.skipgram.cbow import MAX_CENTRES as CBOW_CENTRES
from any2vec.kernels.skipgram.skipgram import MAX_CENTRES as SKIPGRAM_CENTRES
from any2vec.models.words.config import SequenceModel
from any2vec.models.words.learner import shared_negatives
from any2vec.plan.cost.hosts import Costs, Pace, RunPlan, Spread, check_pace, plan_run, touched_bytes
from any2vec.plan.cost.occupancy import Reading, blocks_per_kept
from any2vec.plan.cost.part import TEXT, HostPart, part_of_graph, part_of_text

if TYPE_CHECKING:
    from any2vec.train.sizing import Sized


def reading_of(model: SequenceModel, block: int, keep_rate: float, clump: float = 1.0) -> Reading:
    """What a model's kernel reads: block, its positions; keep_rate, the share of positions that hold a kept token."""
    is_skipgram = model.architecture == "skipgram"
    if model.objective == "hierarchical":
        return Reading(subsample=model.subsample, draws=0.0, is_hierarchical=True, clump=clump)
    if model.kernel == "classic":  # windows are uniform on 1..window, on either side
        draws = float((model.window + 1 if is_skipgram else 1) * model.num_negatives)
    else:
        most = SKIPGRAM_CENTRES if is_skipgram else CBOW_CENTRES
        draws = shared_negatives(model) * blocks_per_kept(block, keep_rate, most)
    return Reading(subsample=model.subsample, draws=draws, clump=clump)


def plan_hosts(
    sized: Sized, spread: Spread, threads: int, *, efficiency: float = 0.92, memory_bandwidth: float = 0.0,
    costs: Costs | None = None, cut: str | None = None,
) -> RunPlan:  # fmt: skip
    """The plan of a run of which one thread's needs are known.

    sized: with one thread; threads: of each host; memory_bandwidth: of each host, bytes/s, 0: no limit; cut: how the
    input is cut into parts, one a host: "text", or the partition of a graph; None: every host holds all of it.

    Raises:
        InputError: a rate is not legal.
    """
    shape = sized.shape
    pace = Pace(
        thread_items_per_s=sized.rates.items_per_s, efficiency=efficiency, memory_bandwidth=memory_bandwidth,
        bytes_per_item=touched_bytes(shape.dim, sized.found.keep_rate(sized.reading.subsample), sized.reading.draws),
    )  # fmt: skip
    check_pace(pace)
    rates = replace(
        sized.rates, items_per_s=pace.items_per_s(threads), walk_items_per_s=sized.rates.walk_items_per_s * threads
    )
    shape = replace(shape, threads=threads)
    part = None if cut is None or spread.hosts == 1 else _part_of(sized, spread, cut)
    return plan_run(shape, rates, spread, sized.found, sized.reading, costs, part)


def _part_of(sized: Sized, spread: Spread, cut: str) -> HostPart:
    """What the fullest host holds of the input. Of a shape without edges, walks are taken to have no dead ends."""
    if cut == TEXT:
        return part_of_text(sized.shape, spread.hosts)
    from any2vec.sampling.travel import IN_FLIGHT, bytes_in_flight

    walker, in_all = sized.walker, spread.hosts * spread.rounds_per_epoch
    slots = sized.shape.items if walker is None else walker.num_walks * walker.stride
    # Under way are at most as many walkers as a round has walks, on average spread evenly over the hosts. Copied rows
    # are left out: hardly any step asks for one.
    under_way = 0 if walker is None else min(IN_FLIGHT, -(-walker.num_walks // spread.rounds_per_epoch)) // spread.hosts
    return part_of_graph(
        sized.shape, None if walker is None else walker.csr.indptr, spread.hosts, cut, round_slots=-(-slots // in_all),
        walkers_bytes=0 if walker is None else bytes_in_flight(under_way, walker.options.walk_length, 0, 0),
    )  # fmt: skip
