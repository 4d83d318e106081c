"""A task of its own: bags of items, each predicted from the mean of the others in its bag (negative sampling)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from any2vec.checks import check_number, check_whole
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError
from any2vec.plan.cost.size import Size, TableSize
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.order.shares import chunk_bounds
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.train.in_memory.program import InMemoryProgram, states_by_rank
from any2vec.train.loop import LocalDriver
from any2vec.train.result import Result
from any2vec.train.task import HOSTS, RUN, Nouns, Task
from any2vec.types import Span, Stats, Work


@dataclass(frozen=True, kw_only=True)
class BagMeans:
    """Vectors of items by the mean of the others in their bag."""

    name: ClassVar[str] = "bag-means"
    default_epochs: ClassVar[int] = 5

    dim: int = 32
    """numbers per vector, 1..4096"""
    learning_rate: float = 0.1
    """initial learning rate, in (0, 10]; it falls to 0"""
    num_negatives: int = 10
    """items that each bag is contrasted with, 1..1000"""

    def __post_init__(self) -> None:
        check_whole("dim", self.dim, 1, 4096)
        check_number("learning_rate", self.learning_rate, 0, 10, open_low=True)
        check_whole("num_negatives", self.num_negatives, 1, 1000)

    def as_dict(self) -> dict[str, Any]:
        return {"model": self.name} | asdict(self)


@dataclass(frozen=True, kw_only=True)
class BagOptions:
    separator: str = ","
    """between the items of a line"""


@dataclass(frozen=True)
class Bags:
    """Lines of items."""

    keys: list[str]
    counts: np.ndarray
    rows: list[np.ndarray]
    """rows of the items of each line, int64"""
    metadata: dict[str, Any]


class BagTask(Task):
    """Bags of items."""

    name = "bags"
    title = "bags of items"
    models: ClassVar = {"bag-means": "bag_means:BagMeans"}
    reading: ClassVar = {"bags": "bag_means:BagOptions"}
    has: ClassVar = {"run": RUN, "hosts": HOSTS, "sync": ("sync", "scheme", "rounds_per_epoch", "bits")}
    lacks: ClassVar = {"memory": "all rows are in memory", "init": "it starts from random vectors"}
    input: ClassVar = "one file, a bag of items on each line"

    def nouns(self, model: BagMeans) -> Nouns:
        return Nouns("items", "bags")

    def agreement(self, spec: Any) -> RoundAgreement:
        return RoundAgreement.of(spec.hosts, spec.sync)

    def read(self, spec: Any, hooks: Any) -> Bags:
        path = spec.data if isinstance(spec.data, str | Path) else spec.data[0]
        lines = read_lines(Path(path), spec.reading.get("bags", BagOptions()).separator)
        counts = Counter(item for line in lines for item in line)
        keys = [key for key, _ in counts.most_common()]
        row_of = {key: row for row, key in enumerate(keys)}
        rows = [np.array([row_of[item] for item in line]) for line in lines]
        metadata = {"kind": "bags", "bags": len(lines), "items": counts.total(), "distinct": len(keys)}
        return Bags(keys, np.array([counts[key] for key in keys]), rows, metadata)

    def size(self, spec: Any, metadata: Mapping[str, Any]) -> Size:
        """Two tables, and the bags as arrays of rows."""
        tables = [
            TableSize(name=name, rows=metadata["distinct"], columns=spec.model.dim) for name in ("input", "output")
        ]
        bags, result = 150 * metadata["bags"] + 8 * metadata["items"], sum(table.num_bytes for table in tables)
        return Size(tables=tuple(tables), resident={"bags": bags}, items=metadata["bags"], result_bytes=result)

    def program(self, request: Any, data: Bags, transport: Any) -> BagProgram:
        return BagProgram(request, data, transport)

    def evaluate(self, folder: Path, data: Path) -> Mapping[str, Any]:
        """How often the last item of a bag is among the 10 likeliest, given the others."""
        found = Embeddings.load(folder)
        row_of, hits, num_bags = {key: row for row, key in enumerate(found.keys)}, 0, 0
        for line in read_lines(data, BagOptions().separator):
            rows = [row_of[item] for item in line if item in row_of]
            if len(rows) > 1:
                score_V = found.output @ found.vectors[rows[:-1]].mean(axis=0)
                hits += rows[-1] in np.argsort(-score_V, kind="stable")[:10]
                num_bags += 1
        return {"hits_at_10": hits / max(1, num_bags), "num_bags": num_bags}


def read_lines(path: Path, separator: str) -> list[list[str]]:
    lines = [line.split(separator) for line in path.read_text(encoding="utf-8").splitlines() if line]
    if not lines:
        raise DataError(f"{path} holds no bags; give a file with one on each line.")
    return lines


class BagLearner:
    """Stochastic gradient descent, bag after bag; what is drawn for a bag depends on (seed, epoch, bag) alone."""

    def __init__(self, model: BagMeans, rows: list[np.ndarray], tables: dict[str, np.ndarray], seed: int) -> None:
        self.model, self.rows, self.tables, self.seed = model, rows, tables, seed

    def learning_rate(self, progress: float) -> float:
        return self.model.learning_rate * (1 - progress)

    def run(self, work: Work[Span]) -> Stats:
        loss = examples = 0
        for bag in range(work.payload.start, work.payload.stop):
            if len(self.rows[bag]) > 1:
                rng = np.random.default_rng((self.seed, work.epoch, bag))
                loss += self.step(self.rows[bag], rng, self.learning_rate(work.payload.progress(bag)))
                examples += len(self.rows[bag])
        return Stats(work.payload.stop - work.payload.start, loss, examples)

    def step(self, row_B: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """B items of a bag, K negatives; the sum of their losses."""
        inputs, outputs = self.tables["input"], self.tables["output"]
        drawn_K = rng.integers(0, len(outputs), self.model.num_negatives)
        drawn_K = drawn_K[~np.isin(drawn_K, row_B)]
        item_BD = inputs[row_B]
        mean_BD = (item_BD.sum(axis=0) - item_BD) / np.float32(len(row_B) - 1)
        own_B = (mean_BD * outputs[row_B]).sum(axis=1)
        other_BK = mean_BD @ outputs[drawn_K].T
        loss = float(np.logaddexp(0, -own_B).sum() + np.logaddexp(0, other_BK).sum())
        of_own_B, of_other_BK = -1 / (1 + np.exp(own_B)), 1 / (1 + np.exp(-other_BK))
        of_mean_BD = of_own_B[:, None] * outputs[row_B] + of_other_BK @ outputs[drawn_K]
        of_item_BD = (of_mean_BD.sum(axis=0) - of_mean_BD) / np.float32(len(row_B) - 1)
        np.subtract.at(outputs, row_B, np.float32(rate) * of_own_B[:, None] * mean_BD)
        np.subtract.at(outputs, drawn_K, np.float32(rate) * (of_other_BK.T @ mean_BD))
        np.subtract.at(inputs, row_B, np.float32(rate) * of_item_BD)
        return loss

    def inspect(self, epoch: int, start: int, stop: int, marks: Mapping[str, np.ndarray]) -> None:
        """Any row may be read: negatives are of all items."""
        for mark_V in marks.values():
            mark_V[:] = 1

    def close(self) -> None:
        """It has no threads."""


class BagProgram(InMemoryProgram):
    """Tables on every host, agreed on at the end of each round."""

    def __init__(self, request: Any, data: Bags, transport: Any) -> None:
        super().__init__(request, transport)
        self.data, self.metadata, run = data, data.metadata, request.spec.run
        self.tables = self.start_tables(request.spec.model.dim, run.seed)
        self.learner = BagLearner(request.spec.model, data.rows, self.tables, run.seed)
        agreement = request.agreement
        parts, is_stepwise = (1, False) if agreement is None else agreement.parts
        schedule = EpochSchedule(
            bounds=chunk_bounds(len(data.rows), transport.hosts, int), rank=transport.rank, epochs=run.epochs, unit=1,
            piece=64, rounds=1 if agreement is None else agreement.rounds(transport.hosts),
            parts=parts, is_stepwise=is_stepwise, boundary=int,
        )  # fmt: skip
        self.schedule = self._resumed(schedule, transport.hosts)
        self.driver = LocalDriver() if agreement is None else self.rounds(agreement)

    def start_tables(self, dim: int, seed: int) -> dict[str, np.ndarray]:
        if self.checkpoint is not None:
            return {name: np.array(self.checkpoint.state[name]) for name in ("input", "output")}
        shape, rng = (len(self.data.keys), dim), np.random.default_rng(seed)
        start = rng.uniform(-0.5, 0.5, shape).astype(np.float32)
        return {"input": start, "output": np.zeros(shape, np.float32)}

    def rounds(self, options: RoundAgreement) -> Any:
        """Compiled code comes with the room `sync`, so it is imported here: `--help` stays quick."""
        from any2vec.sync.drivers.rounds import Rounds
        from any2vec.sync.make import make_agreement

        counts = dict.fromkeys(self.tables, self.data.counts)
        ahead = self.schedule.rounds_ahead()
        agreement = make_agreement(options, self.transport, self.tables, self.learner, counts, ahead)
        if self.checkpoint is not None:
            agreement.load_state_dict(states_by_rank(self.checkpoint.state))
        return Rounds(agreement)

    def agreed(self) -> dict[str, np.ndarray] | None:
        return self.tables if isinstance(self.driver, LocalDriver) else self.driver.agreement.gather_result()

    @property
    def memory(self) -> dict[str, np.ndarray]:
        return {} if isinstance(self.driver, LocalDriver) else self.driver.agreement.state_dict()

    def result(self, agreed: dict[str, np.ndarray]) -> Result:
        about = {"model": self.request.spec.model.as_dict()}
        return Result(Embeddings(self.data.keys, agreed["input"], agreed["output"], self.data.counts, about))

    def gather_metrics(self, recorder: Any) -> dict[str, Any]:
        if isinstance(self.driver, LocalDriver):
            return {}
        from any2vec.train.in_memory.hosts import metrics_of_rounds

        return metrics_of_rounds(self.request, self.transport, self.driver, recorder.seconds_here)

    def close(self, error: BaseException | None = None) -> None:
        if error is None and not isinstance(self.driver, LocalDriver):
            self.driver.close()
