"""Models of clicks, step by step: equal to plain twins with PyTorch's tables and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import any2vec
import needs_torch
from any2vec.data.clicks.rows import ClickBatch
from any2vec.errors import InputError
from any2vec.kernels.clicks.pair_dots import pair_dots, pair_dots_back
from any2vec.models.clicks.config import ClickModel, layer_sizes
from any2vec.models.clicks.learner import chunks_of
from any2vec.models.clicks.nets import PairDots, make_net, start_values
from any2vec.models.clicks.worker import ClickWorker, predict
from any2vec.models.torch_threads import torch_threads
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.sync.base.dense import NoAgreement
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.replica import Replica
from any2vec.tables.row_table import MemoryRows
from any2vec.tasks.clicks.rows import fresh_rows, row_optimizer
from any2vec.types import LEFT_OUT
from naive.models import clicks as naive

torch = needs_torch.torch
OFFSET_F = np.array([0, 6, 11, 18, 27])
MEANS = [False, False, False, True]
"""two columns of one value, one whose bags are sums, one whose bags are means"""
MODELS: dict[str, type[ClickModel]] = {
    "dlrm": any2vec.DLRM, "deepfm": any2vec.DeepFM, "fm": any2vec.FactorizationMachine,
    "logistic": any2vec.LogisticRegression,
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "dlrm": {"dim": 3, "bottom": "5-4", "top": "6"}, "deepfm": {"dim": 3, "layers": "6-5"}, "fm": {"dim": 3},
    "logistic": {},
}  # fmt: skip


def model_of(name: str, **more: Any) -> ClickModel:
    return MODELS[name](**OWN[name], learning_rate=0.1, **more)


def examples(size: int, num_dense: int, seed: int) -> tuple[np.ndarray, np.ndarray, naive.Bags]:
    """Labels, numbers, and bags: of none to four ids, the same twice now and then, empty ones too."""
    random = np.random.default_rng(seed)
    bags: naive.Bags = []
    for _ in range(size):
        counts = [1, 1, *random.integers(0, 5, 2)]
        bags.append([random.integers(OFFSET_F[f], OFFSET_F[f + 1], n).tolist() for f, n in enumerate(counts)])
    bags[0][2:] = [[], [20, 20, 19]]
    if size > 1:
        bags[1][2:] = [[12, 12, 13, 12], []]
    numbers = random.standard_normal((size, num_dense)).astype(np.float32)
    return random.integers(0, 2, size).astype(np.float32), numbers, bags


def batch_of(labels: np.ndarray, numbers: np.ndarray, bags: naive.Bags) -> ClickBatch:
    flat = [bag for example in bags for bag in example]
    ids = np.array([one for bag in flat for one in bag], np.int64)
    return ClickBatch(labels, numbers, ids, np.cumsum([0, *map(len, flat)]))


class Trained:
    """A worker over tables of its own, and the plain twin that starts from the same numbers."""

    def __init__(self, model: ClickModel, num_dense: int, scale: float = 1.0, place: Any = None) -> None:
        self.model = model
        self.net = make_net(model, num_dense, len(MEANS))
        self.value = start_values(self.net, 3)
        self.value += np.random.default_rng(5).normal(0, 0.1, len(self.value)).astype(np.float32)  # no biases of 0
        self.table = fresh_rows(model, np.arange(OFFSET_F[-1]), 3)
        self.table[:, : model.width] += np.random.default_rng(4).normal(0, 0.3, (OFFSET_F[-1], model.width))
        table = self.table if place is None else self.table[np.argsort(place(np.arange(OFFSET_F[-1])))]
        self.placed = np.ascontiguousarray(table)
        self.replica = Replica(self.value, model.optimizer, model.dense_rate)
        access = MemoryRows(self.placed, row_optimizer(model))
        means = np.array(MEANS)
        self.worker = ClickWorker(0, self.net, self.value, access, NoAgreement(self.replica), means, scale, place)
        dense = {name: parameter.detach().numpy().copy() for name, parameter in self.net.named_parameters()}
        self.twin = naive.PlainClicks(model, self.table, OFFSET_F, dense, MEANS)

    def assert_same(self, table: np.ndarray | None = None) -> None:
        found = self.placed if table is None else table
        np.testing.assert_allclose(found, self.twin.rows, rtol=2e-4, atol=2e-6)
        for name, parameter in self.net.named_parameters():
            np.testing.assert_allclose(
                parameter.detach().numpy(), self.twin.dense[name].detach().numpy(), rtol=2e-4, atol=2e-6, err_msg=name
            )


@pytest.mark.parametrize("num_dense", [0, 2])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_the_plain_twin(name: str, optimizer: Any, num_dense: int) -> None:
    """Losses, rows with the state of their optimizer, and dense layers, after each of three batches; one of one."""
    trained = Trained(model_of(name, optimizer=optimizer, dense_learning_rate=0.03), num_dense)
    before = trained.value.copy()
    for step, size in enumerate((8, 1, 5)):
        data = examples(size, num_dense, seed=step)
        loss = trained.worker.train(batch_of(*data), step)
        assert loss == pytest.approx(trained.twin.train(*data), rel=1e-5)
        trained.assert_same()
    assert (trained.value != before).mean() > 0.5 and trained.replica.count == 3


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_scaled_for_rows_and_dense_layers_alike(name: str) -> None:
    """One of four trainers of which each brings a quarter: with plain descent a quarter of the step."""
    whole, quarter = (Trained(model_of(name, optimizer="sgd"), 2, scale) for scale in (1.0, 0.25))
    starts = [(one.value.copy(), one.placed.copy()) for one in (whole, quarter)]
    data = batch_of(*examples(8, 2, 0))
    for one in (whole, quarter):
        one.worker.train(data, 0)
    for now, before, other, same in (
        (whole.value, starts[0][0], quarter.value, starts[1][0]),
        (whole.placed, starts[0][1], quarter.placed, starts[1][1]),
    ):
        assert np.abs(now - before).max() > 1e-3
        np.testing.assert_allclose(other - same, (now - before) / 4, rtol=1e-3, atol=1e-7)


def test_rows_that_stand_elsewhere_are_trained_there() -> None:
    order = np.random.default_rng(1).permutation(OFFSET_F[-1])
    trained = Trained(model_of("deepfm"), 2, place=lambda id_M: order[id_M])
    data = examples(8, 2, 0)
    trained.worker.train(batch_of(*data), 0)
    trained.twin.train(*data)
    trained.assert_same(trained.placed[order])


def test_rows_that_do_not_occur_stay_as_they_are() -> None:
    trained = Trained(model_of("fm", optimizer="adam"), 2)
    labels, numbers, bags = examples(4, 2, 0)
    before = trained.placed.copy()
    trained.worker.train(batch_of(labels, numbers, bags), 0)
    seen = sorted({one for example in bags for bag in example for one in bag})
    others = np.setdiff1d(np.arange(OFFSET_F[-1]), seen)
    assert others.size and np.array_equal(trained.placed[others], before[others])
    assert (trained.placed[seen] != before[seen]).any(axis=1).all()


def test_a_batch_that_is_left_out_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(model_of("dlrm"), 2)
    before = trained.value.copy(), trained.placed.copy()
    monkeypatch.setattr(NoAgreement, "begin", lambda self, worker, index: LEFT_OUT)
    assert trained.worker.train(batch_of(*examples(4, 2, 0)), 0) is None
    assert np.array_equal(trained.value, before[0]) and np.array_equal(trained.placed, before[1])


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_of_nothing_is_a_step_of_nothing(name: str) -> None:
    """Who has no batch left takes part in the steps of those who have."""
    trained = Trained(model_of(name), 2)
    before = trained.value.copy(), trained.placed.copy()
    assert trained.worker.train(batch_of(*(part[:0] for part in examples(4, 2, 0))), 0) == 0.0  # type: ignore[arg-type]
    assert np.array_equal(trained.value, before[0]) and np.array_equal(trained.placed, before[1])


@pytest.mark.parametrize("num_dense", [0, 2])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_foretold_is_the_plain_twins(name: str, num_dense: int) -> None:
    trained = Trained(model_of(name), num_dense)
    labels, numbers, bags = examples(9, num_dense, 7)
    batch = batch_of(labels, numbers, bags)
    sums = MemoryRows(trained.placed, row_optimizer(trained.model)).pool(BatchRows.of(batch.id_M, batch.start_P), 0)
    found = predict(trained.net, batch, sums, np.array(MEANS))
    expected = torch.sigmoid(trained.twin.logits(numbers, bags)).detach().numpy()
    assert found.dtype == np.float64 and np.ptp(expected) > 0.01
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# ---- dot products of pairs


@pytest.mark.parametrize("num_vectors", [1, 2, 3, 7])
def test_dots_of_pairs_and_their_gradient_are_pytorchs(num_vectors: int) -> None:
    random = np.random.default_rng(num_vectors)
    vectors = random.standard_normal((5, num_vectors, 4)).astype(np.float32)
    share = random.standard_normal((5, num_vectors * (num_vectors - 1) // 2)).astype(np.float32)
    exact = torch.tensor(vectors, dtype=torch.float64, requires_grad=True)
    expected = naive.pair_dots(exact)
    (expected * torch.tensor(share)).sum().backward()
    dots, gradient = np.full(share.shape, np.nan, np.float32), np.full(vectors.shape, np.nan, np.float32)
    pair_dots(vectors, dots)
    pair_dots_back(vectors, share, gradient)
    assert exact.grad is not None
    np.testing.assert_allclose(dots, expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, exact.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_the_gradient_of_dots_is_that_of_differences() -> None:
    """And vectors and gradients that do not lie one behind the other in memory are read as they are meant."""
    wide = torch.tensor(np.random.default_rng(0).standard_normal((2, 4, 6)), dtype=torch.float32)
    vectors = wide.transpose(1, 2)[:, :3].requires_grad_()
    weights = torch.arange(1.0, 4.0)
    PairDots.apply(vectors).mul(weights).sum().backward()
    # of the leaf that `vectors` is: a view, not contiguous
    assert not vectors.is_contiguous() and vectors.grad is not None
    step = 1e-2
    for b, g, d in np.ndindex(2, 3, 4):
        moved = [vectors.detach().clone() for _ in range(2)]
        moved[0][b, g, d] += step
        moved[1][b, g, d] -= step
        high, low = (float((naive.pair_dots(one.double()) * weights).sum()) for one in moved)
        assert float(vectors.grad[b, g, d]) == pytest.approx((high - low) / (2 * step), abs=1e-3)


def test_half_of_square_minus_squares_is_the_sum_over_pairs() -> None:
    """The formula of the factorization machine against explicit pairs, numbers and weights apart."""
    net = make_net(any2vec.FactorizationMachine(dim=3), 2, 5)
    random = np.random.default_rng(0)
    pooled = torch.tensor(random.standard_normal((4, 5, 4)), dtype=torch.float32)
    numbers = torch.tensor(random.standard_normal((4, 2)), dtype=torch.float32)
    with torch.no_grad():
        net.linear.copy_(torch.tensor([0.5, -2.0]))
        net.bias.fill_(0.25)
        found = net(numbers, pooled)
    for b in range(4):
        pairs = sum(float(pooled[b, i, :3] @ pooled[b, j, :3]) for i in range(5) for j in range(i))
        linear = 0.25 + float(pooled[b, :, 3].sum()) + 0.5 * float(numbers[b, 0]) - 2.0 * float(numbers[b, 1])
        assert float(found[b]) == pytest.approx(linear + pairs, rel=1e-5)


# ---- starts, sizes, steps


def test_start_values_are_of_the_seed_alone() -> None:
    net = make_net(any2vec.DLRM(dim=4, bottom="8", top="8"), 3, 2)
    first, again, other = (start_values(net, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    at = 0
    for parameter in net.parameters():
        part, at = first[at : at + parameter.numel()], at + parameter.numel()
        if parameter.ndim < 2:
            assert not part.any()
            continue
        limit = (6 / sum(parameter.shape)) ** 0.5
        assert 0.5 * limit < np.abs(part).max() <= limit and len(set(part.tolist())) == len(part)
    assert at == len(first)


def test_rows_start_by_their_number_whoever_makes_them() -> None:
    model = any2vec.DeepFM(dim=5)
    table = fresh_rows(model, np.arange(50), 7)
    assert np.array_equal(fresh_rows(model, np.array([49, 3]), 7), table[[49, 3]])
    assert table.shape == (50, 5 + 1 + 1) and not table[:, 5:].any()
    assert 0.04 < np.abs(table[:, :5]).max() <= 0.05 and not np.array_equal(fresh_rows(model, np.arange(50), 8), table)


@pytest.mark.parametrize(
    ("text", "sizes"), [("", ()), ("7", (7,)), ("512-256-64", (512, 256, 64)), ("65536", (65536,))]
)
def test_sizes_of_layers(text: str, sizes: tuple[int, ...]) -> None:
    assert layer_sizes("top", text) == sizes


@pytest.mark.parametrize(
    "text", ["0", "-8", "8-", "8--8", "a", "1.5", "65537", "²", " 8", "-".join(["1"] * 17), 8, None]
)
def test_sizes_of_layers_that_are_not_legal(text: Any) -> None:
    with pytest.raises(InputError, match=r"^top must be up to 16 layer sizes from 1 to 65,536 like 512-256-64, got"):
        any2vec.DLRM(top=text)
    with pytest.raises(InputError, match=r"^layers must be up to 16"):
        any2vec.DeepFM(layers=text)


def test_models_without_hidden_layers_still_have_one() -> None:
    net = make_net(any2vec.DLRM(dim=4, bottom="", top=""), 3, 2)
    assert [tuple(parameter.shape) for parameter in net.parameters()] == [(4, 3), (4,), (1, 4 + 3), (1,)]


@pytest.mark.parametrize(
    ("model", "columns", "dense", "said"),
    [
        (any2vec.DLRM(), 1, 0, "dlrm needs two columns of categories, or one and numbers"),
        (any2vec.FactorizationMachine(), 0, 3, "fm needs one column of categories at least"),
    ],
)
def test_what_a_model_cannot_learn_from(model: ClickModel, columns: int, dense: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_net(model, dense, columns)
    make_net(model, 1, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dim": 0}, "dim must be"), ({"dim": 4097}, "dim must be"), ({"learning_rate": 0}, "learning_rate must be"),
        ({"learning_rate": float("nan")}, "learning_rate must be"),
        ({"dense_learning_rate": 11}, "dense_learning_rate must be"), ({"batch_size": 0}, "batch_size must be"),
        ({"optimizer": "adamw"}, "optimizer must be one of adagrad, adam, sgd"),
    ],
)  # fmt: skip
def test_options_that_are_not_legal(options: dict[str, Any], said: str) -> None:
    for kind in (any2vec.DLRM, any2vec.DeepFM, any2vec.FactorizationMachine):
        with pytest.raises(InputError, match=said):
            kind(**options)


def test_logistic_regression_has_one_number_a_row() -> None:
    with pytest.raises(InputError, match="dim of logistic is 1, the weight of a category, got 8; leave it out"):
        any2vec.LogisticRegression(dim=8)
    widths = [any2vec.LogisticRegression().width, any2vec.FactorizationMachine(dim=8).width, any2vec.DLRM(dim=8).width]
    assert widths == [1, 9, 8]


@pytest.mark.parametrize(("rate", "dense"), [(None, 0.005), (0.3, 0.3)])
def test_dense_layers_learn_at_a_quarter_of_the_rows_rate(rate: float | None, dense: float) -> None:
    assert any2vec.DLRM(learning_rate=0.02, dense_learning_rate=rate).dense_rate == dense
    assert any2vec.LogisticRegression(learning_rate=0.02, dense_learning_rate=rate).dense_rate == (rate or 0.02)


def test_chunks_are_whole_batches_for_trainers_and_nothing_for_others() -> None:
    assert chunks_of(100, 3, 2, 10) == [0, 40, 70, 100, 100, 100]
    assert chunks_of(95, 2, 0, 10) == [0, 50, 95]
    assert chunks_of(5, 3, 0, 10) == [0, 5, 5, 5]


def test_steps_of_trainers_with_unequal_numbers_of_batches() -> None:
    options: dict[str, Any] = {"bounds": [0, 30, 45, 45], "epochs": 2, "unit": 10, "piece": 10, "in_lockstep": True}
    first, second, server = (EpochSchedule(**options, rank=rank) for rank in range(3))
    for schedule in (first, second, server):
        assert (schedule.steps_per_epoch, schedule.num_steps) == (3, 6)

    def ranges(schedule: EpochSchedule) -> list[tuple[int, int]]:
        return [(span.start, span.stop) for span in map(schedule.span_at, range(4))]

    assert ranges(first) == [(0, 10), (10, 20), (20, 30), (0, 10)]
    assert ranges(second) == [(30, 40), (40, 45), (45, 45), (30, 40)]
    works = [(work.epoch, work.payload.start, work.step) for work in second]
    assert works == [(0, 30, 0), (0, 40, 1), (1, 30, 3), (1, 40, 4)]
    assert [work.payload.start for work in server] == [45, 45]


def test_pytorchs_threads_are_as_before() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyError), torch_threads(1):
        assert torch.get_num_threads() == 1
        raise KeyError
    assert torch.get_num_threads() == before
