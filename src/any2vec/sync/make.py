"""From the options to the agreement that they name."""

from __future__ import annotations

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.sync.options import HostOptions
from any2vec.sync.pulled import Inspector, Pulled
from any2vec.sync.replicated import Replicated
from any2vec.sync.rounds import Agreement


def make_agreement(
    options: HostOptions, transport: Transport, tables: dict[str, np.ndarray], inspector: Inspector
) -> Agreement:
    """The agreement of one host; tables: name -> float32 (V, D), trained in place."""
    model, _, form = options.scheme.partition("-")
    if model == "rep":
        return Replicated(transport, tables, options.sync, options.bits, form == "opt")
    return Pulled(transport, tables, options.sync, options.bits, form == "opt", inspector)
