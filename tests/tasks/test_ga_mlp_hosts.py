"""GA-MLP on hosts: back-propagation as a pipeline, processes that torchrun has started, and runs that go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.cluster.threads import run_logical, single_host_transport
from any2vec.cluster.transport import Transport
from any2vec.errors import Interrupted, MessageError
from any2vec.models.layers.admm.last import risk_gradient
from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.models.layers.neighbors import neighbors_of
from any2vec.models.layers.weights import Course, Weights, start_weights
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.sharding.layers import critical_path, pipeline_path
from any2vec.train import monitor
from any2vec.types import Span, Stats, Work
from needs_torch import torch
from planted_nodes import SMALL, plant, same, trained

from any2vec.models.layers.backprop.layer import BackpropLayer  # isort: skip  (these need PyTorch to be read)
from any2vec.models.torch_threads import torch_threads  # isort: skip
from any2vec.models.layers.backprop.group import PipelineGroup  # isort: skip
from any2vec.models.layers.backprop.learner import PipelineLearner  # isort: skip

NODES, WIDTH, LAYERS, EPOCHS, CLASSES, INPUTS = 23, 8, 6, 5, 4, 30
TRAINERS = ("gd", "adadelta", "adagrad", "adam")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return plant(tmp_path_factory.mktemp("nodes"))


# ---- back-propagation as a pipeline


def made_up() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    return random.standard_normal((NODES, INPUTS)).astype(np.float32), random.integers(0, CLASSES, NODES)


def pipelined(transport: Transport, trainer: str, micros: int) -> tuple[list[Weights], dict[str, int]]:
    """(weights of all layers after a few epochs, bytes this host has sent by phase)."""
    x, label = made_up()
    model = GAMLP(layers=LAYERS, width=WIDTH, growth="", trainer=trainer, micro_batches=micros, weight_decay=0.3)
    learner = PipelineLearner(model, Course((LAYERS,), (EPOCHS,)), x, label, CLASSES, 1, transport)
    for work in EpochSchedule(bounds=(0, NODES), epochs=EPOCHS, unit=NODES, piece=NODES):
        learner.run(work)
    sent = dict.fromkeys(learner.phases, 0)
    for (kind, _, phase), count in transport.counters.sent.items():
        if kind == "dense" and phase in sent:
            sent[phase] += count
    return learner.weights(), sent


def plain(trainer: str, micros: int) -> list[Weights]:
    """All layers in one graph of PyTorch's: micro-batches from the last to the first, then the weight decay."""
    x, label = (torch.from_numpy(array) for array in made_up())
    weights = start_weights([INPUTS, *[WIDTH] * (LAYERS - 1), CLASSES], 1)
    layers = [tuple(torch.tensor(array, requires_grad=True) for array in weight) for weight in weights]
    kinds = {"gd": torch.optim.SGD, "adadelta": torch.optim.Adadelta, "adagrad": torch.optim.Adagrad}
    kind: Any = (kinds | {"adam": torch.optim.Adam})[trainer]
    rate = {"gd": 0.1, "adadelta": 1.0, "adagrad": 0.01, "adam": 0.001}[trainer]
    optimizer = kind([tensor for layer in layers for tensor in layer], lr=rate)
    ends = [NODES * micro // micros for micro in range(micros + 1)]
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        for start, stop in reversed(list(pairwise(ends))):
            h = x[start:stop]
            for w, b in layers[:-1]:
                h = torch.relu(torch.addmm(b, h, w))
            score = torch.addmm(layers[-1][1], h, layers[-1][0])
            down = risk_gradient(score.detach().numpy(), label[start:stop].numpy()) / np.float32(NODES)
            score.backward(torch.from_numpy(down))
        for w, _ in layers:
            w.grad.add_(w.detach(), alpha=0.3 / NODES)
        optimizer.step()
    return [Weights(w.detach().numpy(), b.detach().numpy()) for w, b in layers]


def equal(one: list[Weights], other: list[Weights]) -> bool:
    return all(
        np.array_equal(a, b) for mine, theirs in zip(one, other, strict=True) for a, b in zip(mine, theirs, strict=True)
    )


@pytest.mark.parametrize("micros", [1, 4])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_pipeline_is_back_propagation_to_the_bit_on_any_number_of_hosts(trainer: str, micros: int) -> None:
    with torch_threads(1):
        alone, nothing = pipelined(single_host_transport(), trainer, micros)
        assert equal(alone, plain(trainer, micros))
        start = start_weights([INPUTS, *[WIDTH] * (LAYERS - 1), CLASSES], 1)
        assert not equal(alone, start) and not any(nothing.values())
        for hosts in (2, 3, 6):
            found = run_logical(hosts, lambda transport: pipelined(transport, trainer, micros))
            assert all(equal(alone, weights) for weights, _ in found)
            size = 4 * NODES * WIDTH * EPOCHS
            assert [sent["activation"] for _, sent in found] == [size] * (hosts - 1) + [0]
            assert [sent["gradient"] for _, sent in found] == [0] + [size] * (hosts - 1)


def test_the_gradient_is_that_of_all_nodes_at_once() -> None:
    """Micro-batches only round: one step of descent, in float64 by hand."""
    with torch_threads(1):
        one, many = (pipelined(single_host_transport(), "gd", micros)[0] for micros in (1, 7))
    assert not equal(one, many)
    for mine, theirs in zip(one, many, strict=True):
        np.testing.assert_allclose(mine.w_IO, theirs.w_IO, rtol=1e-5, atol=1e-7)


def test_neighbors_of_another_pipeline_are_reported() -> None:
    def work(transport: Transport) -> None:
        x, label = made_up()
        sizes = [INPUTS, 5 + transport.rank, 4]
        layer = BackpropLayer(
            transport.rank, start_weights(sizes, 1)[transport.rank], transport.rank == 1, GAMLP(trainer="gd")
        )
        PipelineGroup([layer], transport, neighbors_of(transport.rank, [0, 1, 2]), [(x, label)]).iterate(0.0)

    with pytest.raises(MessageError, match=r"Rank 0 sent activation as float32 \(23, 5\) where float32 \(23, 6\)"):
        run_logical(2, work)


def naive_makespan(each: list[float], micros: int) -> float:
    """Seconds until the last micro-batch is down again, played: a host does one thing at a time, in GPipe's order.

    each: seconds of a host for all micro-batches, a third of it upwards.
    """
    hosts, done = len(each), {}
    free = [0.0] * hosts
    for way in ("up", "down"):
        order = range(micros) if way == "up" else reversed(range(micros))
        for micro in order:
            for host in range(hosts) if way == "up" else reversed(range(hosts)):
                before = host - 1 if way == "up" else host + 1
                ready = done.get((way, micro, before), 0.0)
                own = each[host] / micros * (1 / 3 if way == "up" else 2 / 3)
                free[host] = done[way, micro, host] = max(free[host], ready) + own
    return max(free)


@pytest.mark.parametrize("micros", [1, 4, 9])
def test_the_model_of_a_pipeline_is_what_its_schedule_takes(micros: int) -> None:
    for costs in ([1.0] * 8, [3.0, 1.0, 1.0, 1.0, 2.0, 1.0]):
        for bounds in ([0, len(costs)], [0, 2, len(costs)], list(range(len(costs) + 1))):
            each = [sum(costs[start:stop]) for start, stop in pairwise(bounds)]
            assert pipeline_path(costs, bounds, micros) == pytest.approx(sum(costs) / naive_makespan(each, micros))
    assert pipeline_path([1.0] * 4, [0, 1, 2, 3, 4], micros) == pytest.approx(4 * micros / (micros + 3))
    assert pipeline_path([1.0] * 4, [0, 1, 2, 3, 4], micros) < critical_path([1.0] * 4, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("spread", [{"logical_hosts": 3}, {"hosts": 2}], ids=["threads", "processes"])
def test_a_run_by_back_propagation_on_hosts_is_that_of_one_host(
    planted: dict[str, Any], spread: dict[str, int]
) -> None:
    model = SMALL | {"trainer": "adam", "micro_batches": 4}
    alone, found = trained(planted, 12, model), trained(planted, 12, model, hosts=any2vec.HostOptions(**spread))
    assert same(alone, found) and found.summary["test_accuracy"] == alone.summary["test_accuracy"]
    assert found.summary["items"] == alone.summary["items"] == 12 * 23
    assert found.summary["loss"] == pytest.approx(alone.summary["loss"], rel=1e-12)
    boundaries = 6 + 6 * (len(found.summary["layers_by_host"]) - 1)  # of two layers in the first six epochs
    for phase in ("activation", "gradient"):
        assert found.summary["bytes_by_kind"][phase] == boundaries * 23 * 8 * 4
    assert sum(found.summary["layers_by_host"]) == 4 and len(found.summary["seconds_by_layer"]) == 4


# ---- processes, and runs that go on


def test_processes_make_the_same_model(planted: dict[str, Any]) -> None:
    """What is in memory is stored for them."""
    label = planted["y"]
    split = {name: np.flatnonzero(planted["parts"] == name) for name in ("train", "val", "test")}
    nodes = any2vec.NodeOptions(features=planted["x"].astype(np.float32), labels=label, split=split)  # type: ignore[arg-type]
    spread = trained(planted, 12, SMALL | {"quantize": "16"}, nodes=nodes, hosts=2)
    alone = trained(planted, 12, SMALL | {"quantize": "16"})
    assert same(alone, spread) and spread.summary["test_accuracy"] == alone.summary["test_accuracy"]
    assert spread.scorer.classes == ["0", "1", "2"] and alone.scorer.classes == ["c0", "c1", "c2"]


def test_hosts_that_torchrun_has_started_make_the_same_model(planted: dict[str, Any], tmp_path: Path) -> None:
    command = ["--quantize", "8", "--epochs", "12", "--seed", "2", "--json"]
    command += [f"--{name}={value}" for name, value in SMALL.items()]
    command += [f"--{name}={planted[name]}" for name in ("features", "labels", "split")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    done = subprocess.run(
        [*torchrun, "-m", "any2vec", "train", "ga-mlp", str(planted["edges"]), *command, "--out",
         str(tmp_path / "run")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)  # one rank speaks
    alone = trained(planted, 12, SMALL | {"quantize": "8"})
    assert reported["hosts"] == 2 and reported["lagrangian"] == alone.summary["lagrangian"]
    assert equal(any2vec.NodeClassifier.load(tmp_path / "run").weights, alone.scorer.weights)


@pytest.mark.parametrize("trainer", ["pdadmm", "adam"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits_on_any_number_of_hosts(
    planted: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: str
) -> None:
    model = SMALL | {"trainer": trainer} | ({"quantize": "8"} if trainer == "pdadmm" else {})
    monkeypatch.setattr("any2vec.tasks.layers.program.SETTLED_EVERY", 5)
    on_work = monitor.Monitor.on_work

    def received(self: monitor.Monitor, work: Work[Span], stats: Stats) -> None:
        if work.progress > 0.6:
            self.program.stop_signal = signal.SIGINT
        on_work(self, work, stats)

    with monkeypatch.context() as patch:
        patch.setattr(monitor.Monitor, "on_work", received)
        with pytest.raises(Interrupted, match="holds the work so far"):
            trained(planted, 20, model, out=tmp_path / "run", hosts=any2vec.HostOptions(logical_hosts=3))
    went_on = trained(planted, 20, model, out=tmp_path / "run", resume=True)
    whole = trained(planted, 20, model)
    assert same(went_on, whole)
    for name in ("lagrangian", "residual", "decrease") if trainer == "pdadmm" else ():
        assert went_on.summary[name] == whole.summary[name], name
    again = trained(planted, 20, model, out=tmp_path / "run", resume=True)  # it is finished: nothing is trained
    assert same(again, went_on) and again.summary["test_accuracy"] == went_on.summary["test_accuracy"]
