"""What the PyTorch and TorchRec peers of click models share: arguments, examples, dense layers, timing, log-loss.

Examples are .npy files: ids int32 (N, F), rows of each column's own table; dense float32 (N, X); labels float32 (N,).
Steps read them in order, batch after batch; the last `--test` examples are scored and never trained on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from itertools import pairwise
from typing import Any, Protocol

BOTTOM = (512, 256, 64)
TOP = (512, 256)


class Tables(Protocol):
    """A peer's embedding tables."""

    def parameters_for(self, dense_parameters: list[Any]) -> Any:
        """The optimizer of the dense layers (and of the tables, where their update is not fused)."""

    def batch(self, ids_BF: Any) -> Any:
        """The ids in the form that the look-up takes; made before the clock starts."""

    def look_up(self, batch: Any) -> Any:
        """Pooled vectors, (B, F, D)."""

    def update(self) -> None:
        """Update the rows from the gradients that backward left; nothing where it is fused."""


def parse(description: str | None) -> argparse.Namespace:
    """The arguments; sets the threads of OpenMP and MKL, so call it before torch is imported."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--ids", required=True, help=".npy int32 (N, F)")
    parser.add_argument("--dense", help=".npy float32 (N, X); without it numbers are random")
    parser.add_argument("--labels", help=".npy float32 (N,); without it labels are random")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each table")
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.02, help="of the rows' Adagrad")
    parser.add_argument("--dense-learning-rate", type=float, default=0.01, help="of the dense layers' Adagrad")
    parser.add_argument("--warm", type=int, default=5, help="steps before the clock starts")
    parser.add_argument("--steps", type=int, default=30, help="timed steps of each part")
    parser.add_argument("--train-steps", type=int, default=0, help="then train new weights so long; 0: no log-loss")
    parser.add_argument("--test", type=int, default=0, help="last examples, scored after --train-steps")
    parser.add_argument("--seed", type=int, default=1)
    args, _ = parser.parse_known_args()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    return args


class Examples:
    """The files, cut into batches."""

    def __init__(self, args: argparse.Namespace) -> None:
        import numpy as np

        rng = np.random.default_rng(args.seed)
        self.ids = np.load(args.ids, mmap_mode="r")
        size = len(self.ids)
        self.dense = np.load(args.dense, mmap_mode="r") if args.dense else rng.random((size, 13), np.float32)
        self.labels = np.load(args.labels) if args.labels else (rng.random(size) < 0.25).astype(np.float32)
        self.size = args.batch
        self.num_train = size - args.test
        if self.num_train < args.batch:
            raise SystemExit(f"--ids holds {size:,} examples; a batch of {args.batch:,} and --test do not fit.")

    def parts(self, start: int) -> tuple[Any, Any, Any]:
        """ids int64 (B, F), dense (B, X) and labels (B,) as tensors."""
        import numpy as np
        import torch

        part = slice(start, start + self.size)
        return (
            torch.from_numpy(self.ids[part].astype(np.int64)),
            torch.from_numpy(np.array(self.dense[part])),
            torch.from_numpy(np.array(self.labels[part])),
        )

    def step(self, number: int) -> tuple[Any, Any, Any]:
        """The batch of a step; after the last whole one the first comes again."""
        return self.parts(number % (self.num_train // self.size) * self.size)


def make_net(num_dense: int, num_tables: int, dim: int) -> Any:
    """DLRM's dense layers (Naumov et al. 2019): bottom, products of all pairs of vectors, top."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bottom = _layers((num_dense, *BOTTOM, dim), last=True)
            vectors = num_tables + 1
            self.top = _layers((dim + vectors * (vectors - 1) // 2, *TOP, 1), last=False)
            self.register_buffer("pairs", torch.tril_indices(vectors, vectors, offset=-1))

        def forward(self, dense_BX: Any, pooled_BFD: Any) -> Any:
            below_BD = self.bottom(dense_BX)
            vectors = torch.cat([below_BD.unsqueeze(1), pooled_BFD], dim=1)
            products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return self.top(torch.cat([below_BD, products], dim=1)).squeeze(1)

    return Net()


def _layers(sizes: tuple[int, ...], *, last: bool) -> Any:
    """Linear layers with a ReLU between; after the last one, too, if asked for."""
    import torch

    layers: list[Any] = []
    for before, after in pairwise(sizes):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*(layers if last else layers[:-1]))


class Watch:
    """Seconds of a part, by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def add(self, **parts: float) -> None:
        for name, seconds in parts.items():
            self.seconds.setdefault(name, []).append(seconds)

    def medians(self) -> dict[str, float]:
        return {f"{name}_seconds": statistics.median(values) for name, values in self.seconds.items()}


def time_rows(tables: Tables, examples: Examples, args: argparse.Namespace, watch: Watch) -> None:
    """The embedding part alone: look-up and pooling, then backward from a given gradient with the rows' update."""
    import torch

    gradient = None
    for number in range(args.warm + args.steps):
        batch = tables.batch(examples.step(number)[0])
        began = time.perf_counter()
        pooled = tables.look_up(batch)
        looked_up = time.perf_counter()
        if gradient is None:
            gradient = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(args.seed)) * 1e-3
        pooled_at = time.perf_counter()
        pooled.backward(gradient)
        tables.update()
        ended = time.perf_counter()
        if number >= args.warm:
            forward, backward = looked_up - began, ended - pooled_at
            watch.add(look_up=forward, update=backward, rows=forward + backward)


def train(tables: Tables, net: Any, examples: Examples, args: argparse.Namespace, steps: int, watch: Watch) -> None:
    """Whole steps: rows, dense layers, both updates."""
    import torch

    optimizer = torch.optim.Adagrad(net.parameters(), lr=args.dense_learning_rate)
    for number in range(steps):
        ids, dense, labels = examples.step(number)
        batch = tables.batch(ids)
        began = time.perf_counter()
        pooled = tables.look_up(batch)
        _dense_step(net, optimizer, dense, pooled, labels)
        tables.update()
        if number >= args.warm:
            watch.add(step=time.perf_counter() - began)


def time_free_rows(net: Any, examples: Examples, args: argparse.Namespace, num_tables: int, watch: Watch) -> None:
    """The whole step as if rows cost nothing: pooled vectors are given, and their gradient is made and dropped."""
    import torch

    optimizer = torch.optim.Adagrad(net.parameters(), lr=args.dense_learning_rate)
    pooled = (torch.randn(args.batch, num_tables, args.dim) * 0.01).requires_grad_()
    for number in range(args.warm + args.steps):
        _, dense, labels = examples.step(number)
        began = time.perf_counter()
        pooled.grad = None
        _dense_step(net, optimizer, dense, pooled, labels)
        if number >= args.warm:
            watch.add(free_step=time.perf_counter() - began)


def _dense_step(net: Any, optimizer: Any, dense: Any, pooled: Any, labels: Any) -> None:
    import torch

    loss = torch.nn.functional.binary_cross_entropy_with_logits(net(dense, pooled), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def held_out_log_loss(tables: Tables, net: Any, examples: Examples, args: argparse.Namespace) -> float:
    """Mean log-loss over the whole batches of the last `--test` examples."""
    import torch

    losses = []
    with torch.no_grad():
        for start in range(examples.num_train, examples.num_train + args.test - args.batch + 1, args.batch):
            ids, dense, labels = examples.parts(start)
            logits = net(dense, tables.look_up(tables.batch(ids)))
            losses.append(float(torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)))
    return statistics.fmean(losses)


def measure(make_tables: Any, args: argparse.Namespace, **named: Any) -> None:
    """Everything, then one JSON line. make_tables(num_tables): the peer's tables, new."""
    import torch

    torch.set_num_threads(args.threads)
    examples, watch = Examples(args), Watch()
    num_tables, num_dense = examples.ids.shape[1], examples.dense.shape[1]
    torch.manual_seed(args.seed)
    time_rows(make_tables(num_tables), examples, args, watch)
    time_free_rows(make_net(num_dense, num_tables, args.dim), examples, args, num_tables, watch)
    tables, net = make_tables(num_tables), make_net(num_dense, num_tables, args.dim)
    train(tables, net, examples, args, args.train_steps or args.warm + args.steps, watch)
    result = watch.medians() | named | {"threads": args.threads, "torch": torch.__version__}
    if args.train_steps and args.test >= args.batch:
        result["train_steps"] = args.train_steps
        result["test_log_loss"] = held_out_log_loss(tables, net, examples, args)
    print(json.dumps(result))
