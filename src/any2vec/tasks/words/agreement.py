"""How hosts agree on words and nodes where nobody says so. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from any2vec.sync.options.rounds import RoundAgreement

if TYPE_CHECKING:
    from any2vec.train.spec import RunSpec

_CURVED = "spectral"
"""by default for text with negative sampling; nodes, and hierarchical softmax, have `RoundAgreement`'s (docs/log.md)"""


def agreement_of(spec: RunSpec) -> RoundAgreement:
    """The agreement between rounds.

    Raises:
        InputError: options do not go together.
    """
    is_curved = not spec.model.is_graph and spec.model.objective == "negative"
    sync = replace(spec.sync, sync=_CURVED) if is_curved and spec.sync.sync is None else spec.sync
    return RoundAgreement.of(spec.hosts, sync)
