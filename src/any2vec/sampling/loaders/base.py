"""What all loaders share: batches in an order of the epoch, made ahead by threads, and where a loader stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from sys import is_finalizing
from typing import Any

import numpy as np

from any2vec.checks import MAX_SEED, MAX_THREADS, check_whole
from any2vec.errors import InputError
from any2vec.plan.order.shuffle import random_order
from any2vec.types import State

_PATIENCE = 600.0
"""seconds that a batch may take"""


class BatchLoader(ABC):
    """Batches of items (nodes, links, parts), one PyG object each, made ahead by threads (abstract).

    Each pass is the next epoch. A batch depends on the seed, the epoch and its number, not on the number of threads.

    Args:
        num_items: of an epoch, 1 or more.
        others: as `NeighborLoader` has them.

    Raises:
        InputError: an option is not legal, or torch or torch_geometric is missing.
    """

    def __init__(
        self, num_items: int, *, batch_size: int, seed: int, shuffle: bool, drop_last: bool,
        transform: Callable[[Any], Any] | None, num_workers: int, prefetch: int, pin_memory: bool,
    ) -> None:  # fmt: skip
        check_whole("batch_size", batch_size, 1, (1 << 31) - 1)
        check_whole("num_workers", num_workers, 0, MAX_THREADS)
        check_whole("prefetch", prefetch, 1, 64)
        check_whole("seed", seed, 0, MAX_SEED)
        self.batch_size, self.drop_last, self.shuffle, self.transform = batch_size, drop_last, shuffle, transform
        self._num_items, self._seed = num_items, seed
        self._is_pinned = pin_memory and _has_gpu()
        self._threads, self._depth = max(1, num_workers), prefetch * max(1, num_workers)
        self._epoch = self._batch = 0
        self._is_loaded = False

    @abstractmethod
    def _make(self, places: np.ndarray, epoch: int, batch: int) -> Any:
        """The batch of some items, int64 (B,), which are the `batch`th of an epoch; any thread may call it."""

    def __len__(self) -> int:
        size, rest = divmod(self._num_items, self.batch_size)
        return size + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        if self._batch and not self._is_loaded:
            self._epoch, self._batch = self._epoch + 1, 0
        self._is_loaded = False
        epoch, done, order, is_exit = self._epoch, self._batch, self._order(), is_finalizing
        waiting: deque[Future[Any]] = deque()
        pool, is_stuck = ThreadPoolExecutor(self._threads, thread_name_prefix="any2vec-batches"), False
        try:
            ahead = done
            while done < len(self):
                while ahead < len(self) and len(waiting) < self._depth:
                    items = order[ahead * self.batch_size : (ahead + 1) * self.batch_size]
                    waiting.append(pool.submit(self._make, items, epoch, ahead))
                    ahead += 1
                made = waiting.popleft()
                is_stuck = not wait((made,), _PATIENCE).done
                if is_stuck:
                    raise TimeoutError(f"Batch {done:,} has not been made within {_PATIENCE:g} s.")
                batch = made.result()
                done += 1
                self._note(epoch, done)
                batch = batch.pin_memory() if self._is_pinned else batch
                yield batch if self.transform is None else self.transform(batch)
        finally:
            if not is_exit():  # when threads have been joined, and modules are going
                pool.shutdown(wait=not is_stuck, cancel_futures=True)

    def state_dict(self) -> State:
        """Where the loader stands: behind the batch that was given last."""
        is_over = self._batch == len(self)
        epoch, batch = (self._epoch + 1, 0) if is_over else (self._epoch, self._batch)
        return {"epoch": np.array(epoch), "batch": np.array(batch)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `state_dict` gave: the next pass begins with the batch behind it.

        Raises:
            InputError: it is of no such loader.
        """
        with suppress(KeyError, TypeError, ValueError):
            epoch, batch = int(state["epoch"]), int(state["batch"])
            if epoch >= 0 and 0 <= batch < max(1, len(self)):
                self._epoch, self._batch, self._is_loaded = epoch, batch, True
                return
        raise InputError(f"The state is of another loader: it needs an epoch and a batch below {len(self):,}.")

    def _note(self, epoch: int, done: int) -> None:
        """So many batches of an epoch have been given: where the loader stands, unless a later pass has begun."""
        if epoch == self._epoch:
            self._batch = done

    def _order(self) -> np.ndarray:
        """The items, int64, in the order of the epoch."""
        return random_order(self._num_items, self._seed, self._epoch) if self.shuffle else np.arange(self._num_items)


def check_libraries(loader: str) -> None:
    """InputError where what a loader gives cannot be made."""
    try:
        import torch  # noqa: F401
        import torch_geometric.data  # noqa: F401
    except ImportError as error:
        raise InputError(f'{loader} gives PyG\'s Data; pip install "any2vec[pyg]".') from error


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())
