"""Tables of optimizer states: NAME.state has those of the rows of NAME, from the same array but of other columns.

So agreements treat a state apart from the values beside it: it does not turn their dot products and norms, it is sent
in 32 bits, for rounding would take the root of it below zero, and no bound of values clips it.

Legend: V rows, W values of a row, C columns, state included.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from any2vec.kernels.common.scalar import BOUND

_STATE = ".state"


def is_state(name: str) -> bool:
    """Whether a table is one of states."""
    return name.endswith(_STATE)


def values_of(name: str) -> str:
    """The table whose rows a table's rows belong to: itself, unless it is one of states."""
    return name.removesuffix(_STATE)


def bits_of(name: str, bits: int) -> int:
    """Of a number of a table that is sent, where those of values take `bits`."""
    return 32 if is_state(name) else bits


def bound_of(name: str) -> float:
    """No number of a table that is agreed on is larger."""
    return float("inf") if is_state(name) else float(BOUND)


def apart(tables: Mapping[str, np.ndarray], widths: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Views of tables, float32 (V, C): the first W columns under their name, the others as states. widths: W."""
    found = {}
    for name, table_VC in tables.items():
        found[name] = table_VC[:, : widths[name]]
        if table_VC.shape[1] > widths[name]:
            found[name + _STATE] = table_VC[:, widths[name] :]
    return found


def together(tables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Whole tables again of what `apart` made of them, copied."""
    return {
        name: np.concatenate([table, tables[name + _STATE]], axis=1) if name + _STATE in tables else table.copy()
        for name, table in tables.items()
        if not is_state(name)
    }
