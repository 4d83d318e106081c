"""What the summary says of hosts that agree between rounds."""

from __future__ import annotations

import json
from typing import Any

from any2vec.cluster.transport import Transport, text_of, text_part
from any2vec.sync.drivers.rounds import Rounds
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.sync.table_replicas import TableReplicas
from any2vec.train.result import histogram, summed
from any2vec.train.spec import Request


def metrics_of_rounds(
    request: Request, transport: Transport, driver: Rounds | TableReplicas, seconds: float
) -> dict[str, Any]:
    """Bytes and times of all hosts, at rank 0; all call it together. seconds: of training."""
    counters, agree = transport.counters, request.agreement
    assert isinstance(agree, RoundAgreement)
    own = {
        "bytes_by_kind": counters.bytes_by_kind(), "bytes_by_phase": counters.bytes_by_phase(),
        "seconds": driver.seconds, "share": driver.seconds / max(seconds, 1e-9),
        "walk_seconds": driver.walk_seconds, "counts": driver.facts(),
    }  # fmt: skip
    found = transport.gather([text_part(json.dumps(own))], "facts")
    if not found:
        return {}
    told = [json.loads(text_of(parts[0])) for parts in found.values()]

    def mean(name: str) -> float:
        return float(sum(host[name] for host in told) / len(told))

    return {
        "hosts": transport.hosts, "sync": agree.sync, "scheme": agree.form(transport.hosts), "bits": agree.bits,
        "rounds": driver.rounds, "rounds_per_epoch": agree.rounds(transport.hosts),
        "bytes_by_kind": summed([host["bytes_by_kind"] for host in told]),
        "bytes_by_phase": summed([host["bytes_by_phase"] for host in told]),
        "agree_seconds": mean("seconds"), "agree_share": mean("share"),
        **({"walk_seconds": mean("walk_seconds")} if agree.partition is not None else {}),
        **{name: histogram([host["counts"][name] for host in told]) for name in told[0]["counts"]},
    }  # fmt: skip
