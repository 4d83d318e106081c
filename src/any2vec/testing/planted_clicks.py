"""A planted click stream of any size: Zipf ids, a factor-model teacher, and the scores that no learner can beat."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from any2vec.checks import MAX_SEED, check_number, check_whole
from any2vec.data.clicks.rows import ClickBatch
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.io.storage import atomic_file
from any2vec.errors import InputError
from any2vec.kernels.clicks import planted as kernels
from any2vec.kernels.common.alias import build_alias
from any2vec.kernels.common.rng import stream_key

PART_SHARES = (0.6, 0.2, 0.2)
"""share of the logit's variance that comes from ids alone, from pairs of ids, from dense numbers"""
COLUMN_DECAY = 0.75
HEAD = 100
"""The k-th strongest column counts k**-COLUMN_DECAY times as much, and the k-th most popular row (1 + k / HEAD)**-0.5
times: else most of what the teacher knows would be about rows too rare for a million examples to tell."""
MOST_EXAMPLES = 1 << 40
_HIDDEN = 8
_CALIBRATION = 1 << 14
"""examples behind the stream's end that set the scale and the intercept"""
_CHUNK = 1 << 16


class PlantedClicks:
    """A stream of examples that is made when it is asked for; any range alone, by any thread, always the same.

    Column f's rows have probability k**-zipf / sum, where k is their rank of popularity; ranks are permuted by the
    seed. The teacher's logit is an intercept, a weight of each id, the products of the factors of each two columns
    (a factorization machine, Rendle 2010), and a layer of rectifiers over the dense numbers; its numbers of an id are
    hashed from the id, never stored; columns and rare rows differ in weight (COLUMN_DECAY, HEAD). The parts are scaled
    on a sample of 16,384 examples, so that their variances are as PART_SHARES and the logit's standard deviation is
    `strength`; the intercept is solved there for the rate. Both are met but for the error of that sample.

    A learner sees it as it sees files of clicks: row 0 of a column (missing) and row 1 (rare) do not occur.
    Deterministic; memory O(rows of a column) + O(ids of a batch).
    """

    def __init__(
        self,
        num_examples: int,
        *,
        columns: int = 26,
        rows: int = 100_000,
        zipf: float = 1.1,
        dense: int = 13,
        multi_valued: int = 0,
        longest: int = 5,
        factors: int = 2,
        rate: float = 0.25,
        strength: float = 1.5,
        seed: int = 1,
    ) -> None:
        """
        Args:
            num_examples: examples of the stream, 1..2**40. A shorter stream is the beginning of a longer one.
            columns: categorical columns, 1..10,000, the multi-valued ones among them.
            rows: different ids of each column, 1..2**30.
            zipf: exponent of popularity, 0 (uniform)..10.
            dense: dense columns, 0..10,000.
            multi_valued: how many of the last columns hold bags of 0..longest ids, equally often, pooled by mean.
            longest: ids of such a bag at most, 1..1,000.
            factors: numbers of an id that pairs are made of, 1..256.
            rate: mean probability of a click, 0.001..0.999.
            strength: standard deviation of the logit, 0..10; 0 is coin tossing.
            seed: 0..2**63 - 1.

        Raises:
            InputError: one is not legal.
        """
        check_whole("num_examples", num_examples, 1, MOST_EXAMPLES)
        check_whole("columns", columns, 1, 10_000)
        check_whole("rows", rows, 1, 1 << 30)
        check_number("zipf", zipf, 0, 10)
        check_whole("dense", dense, 0, 10_000)
        check_whole("multi_valued", multi_valued, 0, columns)
        check_whole("longest", longest, 1, 1_000)
        check_whole("factors", factors, 1, 256)
        check_number("rate", rate, 0.001, 0.999)
        check_number("strength", strength, 0, 10)
        check_whole("seed", seed, 0, MAX_SEED)
        self.num_examples, self.seed = int(num_examples), int(seed)
        wholes = (num_examples, columns, rows, dense, multi_valued, longest, factors, seed)
        options = (*map(int, wholes), *map(float, (zipf, rate, strength)))
        self.digest = hashlib.blake2b(repr(options).encode(), digest_size=16).hexdigest()
        """a hash of the arguments: streams with the same one are the same"""
        self.schema = _schema(columns, multi_valued, dense)
        self.num_rows_F = np.full(columns, rows + kernels.FIRST_VALUE, np.int64)
        self.offset_F = np.concatenate([[0], np.cumsum(self.num_rows_F)]).astype(np.int64)
        self.is_mean_F = np.arange(columns) >= columns - multi_valued
        self._num_single = columns - multi_valued
        self._order_R, self._ids = _make_ids(rows, zipf, self.offset_F, longest, self.seed)
        self._teacher = self._make_teacher(factors, rate, strength)

    # ---- what a learner asks ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.num_examples

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the F columns of categories."""
        return tuple(column.name for column in self.schema.columns)

    @property
    def dense_names(self) -> tuple[str, ...]:
        """Names of the X dense columns."""
        return self.schema.dense

    @property
    def num_rows(self) -> int:
        """Rows of the one table of all columns."""
        return int(self.offset_F[-1])

    def batch(self, start: int, stop: int) -> ClickBatch:
        """The examples [start, stop), 0 <= start <= stop <= num_examples; else InputError. O(size of the batch)."""
        self.check_range(start, stop)
        batch = self._inputs(start, stop)
        kernels.fill_labels(self._key(kernels.PURPOSE_LABELS), start, self._probability_of(batch), batch.label_B)
        return batch

    def check_range(self, start: int, stop: int) -> None:
        """InputError unless 0 <= start <= stop <= num_examples."""
        if not 0 <= start <= stop <= self.num_examples:
            raise InputError(f"A batch needs 0 <= start <= stop <= {self.num_examples:,}, got {start:,} and {stop:,}.")

    # ---- what is known ----------------------------------------------------------------------------------------------

    def probability(self, start: int, stop: int) -> np.ndarray:
        """The true probability of a click, float64 (stop - start,). InputError: the range is not within the stream."""
        self.check_range(start, stop)
        probability = np.empty(stop - start)
        for begin, end in chunks(start, stop):
            probability[begin - start : end - start] = self._probability_of(self._inputs(begin, end))
        return probability

    def bayes(self, start: int, stop: int) -> BayesScores:
        """Scores of the true probabilities of a range, in expectation over labels.

        Log-loss is the mean entropy. AUC is the expected number of (click, no click) pairs that are ordered rightly
        (ties count half) over the expected number of such pairs; no label is drawn. O(n log n), 40 bytes an example.

        Raises:
            InputError: the range is not within the stream, or holds one example only.
        """
        if stop - start < 2:
            raise InputError(f"bayes needs a range of two examples or more, got [{start}, {stop}).")
        return bayes_scores(self.probability(start, stop))

    def rows_by_popularity(self, column: int) -> np.ndarray:
        """Rows of a column in the table of all, the most popular first: int64 (rows,). InputError: no such column."""
        check_whole("column", column, 0, len(self.num_rows_F) - 1)
        turned = (self._order_R + self._ids.shift_F[column]) % len(self._order_R)
        rows: np.ndarray = self.offset_F[column] + kernels.FIRST_VALUE + turned
        return rows

    # ---- how it is made ---------------------------------------------------------------------------------------------

    def _key(self, purpose: int) -> np.uint64:
        return stream_key(self.seed, purpose)

    def _inputs(self, start: int, stop: int) -> ClickBatch:
        """A batch whose labels are not drawn yet."""
        size, F = stop - start, len(self.num_rows_F)
        start_P = np.empty(size * F + 1, np.int64)
        lengths_key = self._key(kernels.PURPOSE_LENGTHS)
        kernels.fill_starts(lengths_key, start, self._num_single, F, self._ids.longest, start_P)
        id_M = np.empty(start_P[-1], np.int64)
        kernels.fill_ids(self._ids, start, start_P, id_M)
        dense_BX = np.empty((size, len(self.dense_names)), np.float32)
        kernels.fill_dense(self._key(kernels.PURPOSE_DENSE), start, dense_BX)
        return ClickBatch(np.empty(size, np.float32), dense_BX, id_M, start_P)

    def _parts(self, teacher: kernels.Teacher, batch: ClickBatch) -> np.ndarray:
        parts_B3 = np.empty((len(batch.label_B), 3))
        kernels.fill_categorical(teacher, self._ids, batch.id_M, batch.start_P, parts_B3)
        kernels.fill_dense_part(teacher, batch.dense_BX, parts_B3)
        return parts_B3

    def _probability_of(self, batch: ClickBatch) -> np.ndarray:
        probability_B = np.empty(len(batch.label_B))
        kernels.fill_probability(self._teacher, self._parts(self._teacher, batch), probability_B)
        return probability_B

    def _make_teacher(self, factors: int, rate: float, strength: float) -> kernels.Teacher:
        width = len(self.dense_names)
        weights, columns = _HIDDEN * (width + 1), len(self.num_rows_F)
        bits = np.empty(weights + columns, np.uint64)
        kernels.fill_draws(self._key(kernels.PURPOSE_LAYOUT), bits)
        scale_F = (1.0 + np.argsort(np.argsort(bits[weights:], kind="stable"))) ** -COLUMN_DECAY
        scale_R = np.empty(len(self._order_R))
        scale_R[self._order_R] = (1.0 + np.arange(len(scale_R)) / HEAD) ** -0.5
        numbers = (bits[:weights] >> np.uint64(11)) / 2.0**52 - 1.0  # uniform in [-1, 1)
        hidden_XH = numbers[: width * _HIDDEN].reshape(width, _HIDDEN) * np.sqrt(3 / max(1, width))
        key = self._key(kernels.PURPOSE_FACTORS)
        raw = kernels.Teacher(
            key, int(factors), scale_F, scale_R, hidden_XH, numbers[width * _HIDDEN :].copy(), np.ones(3), 0.0
        )
        parts_B3 = self._parts(raw, self._inputs(MOST_EXAMPLES, MOST_EXAMPLES + _CALIBRATION))
        deviation_3 = parts_B3.std(axis=0)
        weight_3 = np.where(deviation_3 > 1e-9, np.sqrt(PART_SHARES) / np.maximum(deviation_3, 1e-9), 0.0)
        logit_B = parts_B3 @ weight_3
        weight_3 *= strength / max(float(logit_B.std()), 1e-9)
        return raw._replace(weight_3=weight_3, intercept=_solve_intercept(parts_B3 @ weight_3, rate))


def _schema(columns: int, multi_valued: int, dense: int) -> ClickSchema:
    return ClickSchema(
        dense=tuple(f"I{number}" for number in range(1, dense + 1)),
        categorical=tuple(f"C{number}" for number in range(1, columns - multi_valued + 1)),
        multi_valued=tuple(f"T{number}" for number in range(1, multi_valued + 1)),
        dense_transform="none",
        ids="vocabulary",
        pooling="mean",
        delimiter="tab",
        header=True,
    )


def _make_ids(rows: int, zipf: float, offset_F: np.ndarray, longest: int, seed: int) -> tuple[np.ndarray, kernels.Ids]:
    """The rows by falling popularity, int32 (rows,), and what draws them."""
    bits = np.empty(rows + len(offset_F) - 1, np.uint64)
    kernels.fill_draws(stream_key(seed, kernels.PURPOSE_LAYOUT, 1), bits)
    order_R = np.argsort(bits[:rows], kind="stable").astype(np.int32)
    weights = np.empty(rows)
    weights[order_R] = np.arange(1, rows + 1, dtype=np.float64) ** -float(zipf)
    shift_F = (bits[rows:] % np.uint64(rows)).astype(np.int64)
    key = stream_key(seed, kernels.PURPOSE_IDS)
    threshold_R, alias_R = build_alias(weights)
    return order_R, kernels.Ids(key, threshold_R, alias_R, shift_F, offset_F, int(longest))


def _solve_intercept(logit_B: np.ndarray, rate: float) -> float:
    """The intercept at which the mean probability is `rate`, by bisection."""
    low, high = -50.0 - float(logit_B.max()), 50.0 - float(logit_B.min())
    for _ in range(100):
        middle = 0.5 * (low + high)
        above = float((1.0 / (1.0 + np.exp(-np.clip(logit_B + middle, -700, 700)))).mean()) > rate
        low, high = (low, middle) if above else (middle, high)
    return 0.5 * (low + high)


def chunks(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The range in pieces that are made at once."""
    for begin in range(start, stop, _CHUNK):
        yield begin, min(begin + _CHUNK, stop)


@dataclass(frozen=True)
class BayesScores:
    """What the true probabilities score, in expectation over labels: the floor of log-loss, the ceiling of AUC."""

    log_loss: float
    """nats an example"""
    auc: float
    normalized_entropy: float
    """log-loss over the entropy of the mean probability"""
    rate: float
    """mean probability of a click"""


def bayes_scores(probability_B: np.ndarray) -> BayesScores:
    """From the true probabilities of two examples or more, float64 (B,); no label is drawn. O(B log B)."""
    p = np.sort(probability_B)
    rate = float(p.mean())
    loss = float(_entropy(p).mean())
    return BayesScores(loss, _expected_auc(p), loss / float(_entropy(np.array([rate]))[0]), rate)


def _entropy(p: np.ndarray) -> np.ndarray:
    """Of a coin, in nats."""
    from scipy.special import entr

    entropy: np.ndarray = entr(p) + entr(1.0 - p)
    return entropy


def _expected_auc(p: np.ndarray) -> float:
    """Of true probabilities as scores, over pairs of different examples; p ascends."""
    quiet = np.concatenate([[0.0], np.cumsum(1.0 - p)])
    first, last = np.searchsorted(p, p, "left"), np.searchsorted(p, p, "right")
    own = p * (1.0 - p)
    right = p @ (0.5 * (quiet[first] + quiet[last])) - 0.5 * own.sum()
    return float(right / (p.sum() * quiet[-1] - own.sum()))


def write_tsv(clicks: PlantedClicks, path: str | Path, start: int = 0, stop: int | None = None) -> Path:
    """Write examples [start, stop) as text with a header, and a schema beside it (same name, `.toml`).

    Columns: label, I1.. (dense, float32 in full), C1.. (categorical), T1.. (multi-valued, `|` between values).
    A value is the number of its row within the column, so that a vocabulary finds as many values as occur.

    Returns:
        The path of the schema.

    Raises:
        InputError: the range is not within the stream.
        StorageError: a file cannot be written.
    """
    path, stop = Path(path), clicks.num_examples if stop is None else stop
    clicks.check_range(start, stop)
    if path.suffix == ".toml":
        raise InputError(f"{path}: the schema is written with that suffix; name the file of clicks .tsv, say.")
    with atomic_file(path) as temporary, temporary.open("w", encoding="ascii", newline="\n") as file:
        file.write("\t".join([clicks.schema.label, *clicks.dense_names, *clicks.columns]) + "\n")
        for begin, end in chunks(start, stop):
            file.writelines(_lines(clicks.batch(begin, end), clicks.offset_F))
    schema_path = path.with_suffix(".toml")
    with atomic_file(schema_path) as temporary:
        temporary.write_text(_toml(clicks.schema), encoding="ascii")
    return schema_path


def _lines(batch: ClickBatch, offset_F: np.ndarray) -> Iterator[str]:
    F = len(offset_F) - 1
    column_P = np.tile(np.arange(F), len(batch.label_B))
    own_M = batch.id_M - np.repeat(offset_F[column_P], np.diff(batch.start_P))
    value_M, end_P, dense_BX = own_M.astype(str).tolist(), batch.start_P.tolist(), batch.dense_BX.astype(str).tolist()
    for b, label in enumerate(batch.label_B.astype(np.int64).tolist()):
        bags = ("|".join(value_M[end_P[p] : end_P[p + 1]]) for p in range(b * F, (b + 1) * F))
        yield "\t".join((str(label), *dense_BX[b], *bags)) + "\n"


def _toml(schema: ClickSchema) -> str:
    """The fields that differ from their defaults; Python's text of names and lists of names is TOML's."""
    lines = ["# Planted clicks: each value its own row, dense numbers as they are."]
    default = ClickSchema(categorical=("any",)).to_dict()
    for name, value in schema.to_dict().items():
        if value != default[name]:
            text = str(value).lower() if isinstance(value, bool) else repr(value)
            lines.append(f"{name} = {text}")
    return "\n".join(lines) + "\n"
