"""What the summary says of hosts that agree between rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from any2vec.cluster.counters import summed
from any2vec.cluster.transport import Transport, gather_json
from any2vec.sync.drivers.rounds import Rounds
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.sync.options.row_cache import CachedRows
from any2vec.train.result import histogram
from any2vec.train.spec import Request

if TYPE_CHECKING:
    from any2vec.sync.table_replicas import TableReplicas


def gather_numbers(transport: Transport, own: dict[str, Any], timeout: float | None = None) -> list[dict[str, Any]]:
    """The metrics of each host, and its bytes, by rank, at rank 0; nothing elsewhere. All call it together."""
    counters = transport.counters
    own = {"bytes_by_kind": counters.bytes_by_kind(), "bytes_by_phase": counters.bytes_by_phase()} | own
    return gather_json(transport, own, "facts", timeout)


def metrics_of_rounds(
    request: Request, transport: Transport, driver: Rounds | TableReplicas, seconds: float
) -> dict[str, Any]:
    """Bytes and times of all hosts since they have started, or gone on from a checkpoint, at rank 0; all call it
    together. seconds: of training since then.
    """
    agree = request.agreement
    assert isinstance(agree, RoundAgreement | CachedRows)
    by_host = gather_numbers(transport, {
        "seconds": driver.seconds, "share": driver.seconds / max(seconds, 1e-9),
        "walk_seconds": driver.walk_seconds, "counts": driver.metrics(),
    })  # fmt: skip
    if not by_host:
        return {}

    def mean(name: str) -> float:
        return float(sum(host[name] for host in by_host) / len(by_host))

    return {
        "hosts": transport.hosts, **agree.metrics(transport.hosts),
        "rounds": driver.rounds, "rounds_per_epoch": agree.rounds(transport.hosts),
        "bytes_by_kind": summed([host["bytes_by_kind"] for host in by_host]),
        "bytes_by_phase": summed([host["bytes_by_phase"] for host in by_host]),
        "agree_seconds": mean("seconds"), "agree_share": mean("share"),
        **({"walk_seconds": mean("walk_seconds")} if request.spec.hosts.partition is not None else {}),
        **{name: histogram([host["counts"][name] for host in by_host]) for name in by_host[0]["counts"]},
    }  # fmt: skip
