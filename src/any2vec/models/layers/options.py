"""Over which hosts the layers of a network are spread. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from any2vec.checks import check_choice
from any2vec.sync.options.run_hosts import RunHosts


@dataclass(frozen=True, kw_only=True)
class LayerOptions(RunHosts):
    """Hosts of a layered network, each with consecutive layers; what is learned does not depend on them."""

    dual: Literal["sent", "computed"] = "sent"
    """between hosts the dual u is sent, as published, or computed on both sides: fewer bytes, the same result"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("dual", self.dual, ("sent", "computed"))
