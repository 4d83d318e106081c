"""Which attempt at a run this is, where torchrun starts hosts again that have failed.

How often hosts were started again is no common number: each agent counts the failures of its own, and one whose hosts
were started again for others' sake counts nothing. So rank 0 leaves word in torchrun's store, which outlasts attempts
for as long as its agent does; where that is gone, what any agent has counted says it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import Store

_RUNS = itertools.count()
_CAME, _BEGUN = "came", "begun"


class Attempt:
    """One attempt at the next run of this process.

    Args:
        store: torchrun's, at rank 0; None: elsewhere, or nobody keeps one from attempt to attempt.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.is_again = False
        """whether an attempt before this has begun with the run, the same at all hosts that have joined"""
        self._store, self._name = store, f"any2vec/run/{next(_RUNS)}"
        self._left = ""
        if store is not None:
            if store.check([self._name]):
                self._left = store.get(self._name).decode()
            else:
                store.set(self._name, _CAME)

    def said(self, restarts: int) -> dict[str, str]:
        """What this host tells the others. restarts: how often its agent says that it was started again."""
        return {"attempt": self._left, "restarts": str(restarts)}

    def agree(self, every: Sequence[Mapping[str, str]]) -> None:
        """Take what all hosts have `said`, by rank.

        Where rank 0 came before and did not begin, no attempt has, whatever agents have counted.
        """
        left = every[0]["attempt"]
        self.is_again = left == _BEGUN or (not left and any(int(one["restarts"]) for one in every))

    def begin(self) -> None:
        """The run's folder is as an attempt after this may find it."""
        if self._store is not None:
            self._store.set(self._name, _BEGUN)
