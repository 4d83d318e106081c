"""Rows about layers on hosts: the same bits, the bytes of the formula, and the time of an iteration."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from any2vec.models.layers.classifier import NodeClassifier
from any2vec.plan.sharding.layers import boundary_bytes, critical_path, pipeline_path
from benchmarks.bench import ONE_BLAS_THREAD, ROOT, Bench, script_of
from benchmarks.layers.accuracy import files_of, runs_of
from benchmarks.machine.namespaces import BURST, QUEUE, network
from benchmarks.table import Measure, Reading, Row, RowError

HOSTS = (1, 2, 5, 10)
EPOCHS = 50
NODES, WIDTH = 140, 100
LEAST_SPEED, REPEATS = 1.7, 5
PORT = 29533
DEPTHS = (8, 11, 14, 17)
RATE = "50mbit"
ADAM = ("--trainer", "adam", "--micro-batches")
MICROS_ON_TWO, MICROS = 4, (4, 14, 35)
"""micro-batches of 140 nodes"""
SCALES = 0.9


def theory(bench: Bench) -> list[Reading]:
    """The test that asserts Lemma 1 and Lemma 4 at every iteration."""
    test = ROOT / "tests" / "models" / "test_ga_mlp_theory.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(test), "-k", "lemma", "-p", "no:cacheprovider"],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    said = (done.stdout.splitlines() or ["no output"])[-1]
    if done.returncode > 1:  # pytest's word for "not found" or "not run"
        raise RowError(f"the test of the lemmas did not run: {said}")
    passed = float(done.returncode == 0)
    reported = "every iteration, ReLU and tanh" if passed else said
    return [Reading(value=passed, text=reported)]


def exactness(bench: Bench) -> list[Reading]:
    """Layers whose weights differ in any bit from those of one host: logical hosts, and processes."""
    differing, shown = 0, []
    for quantize in ("none",) if bench.quick else ("none", "8"):
        runs = [("--logical-hosts", hosts) for hosts in HOSTS] + [("--hosts", 2)]
        first: list[Any] = []
        for place, flags in enumerate(runs):
            out = bench.scratch(f"layers-{quantize}-{place}")
            _train(bench, out, *flags, "--quantize", quantize)
            weights = NodeClassifier.load(out).weights
            first = first or weights
            differing += sum(
                not all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))
                for one, other in zip(first, weights, strict=True)
            )
        shown.append(f"quantize {quantize}")
    hosts = ", ".join(map(str, HOSTS))
    return [
        Reading(
            value=differing,
            text=f"{differing} layers differ; {EPOCHS} iterations, {hosts} logical hosts and 2 processes, "
            + ", ".join(shown),
        )
    ]


def _train(bench: Bench, out: Any, *flags: object) -> dict[str, Any]:
    edges, features, labels, split = files_of(bench, "cora")
    return bench.any2vec(
        "train", "ga-mlp", edges, "--features", features, "--labels", labels, "--split", split,
        "--layers", 10, "--width", WIDTH, "--growth", "", "--epochs", 6 if bench.quick else EPOCHS, "--out", out,
        "--overwrite", *flags,
    ).result  # fmt: skip


def counted_bytes(bench: Bench) -> list[Reading]:
    """Counted less the formula, and what 8 bits save of p, q and u; then what they cost in accuracy."""
    gap, saved = 0, {}
    full = boundary_bytes(NODES, WIDTH)
    for bits, size in (("none", 4), ("16", 2), ("8", 1)):
        for dual in ("sent", "computed"):
            out = bench.scratch("layers-bytes")
            found = _train(bench, out, "--logical-hosts", 10, "--quantize", bits, "--dual", dual)
            formula = boundary_bytes(NODES, WIDTH, size, size, 4 if dual == "sent" else 0)
            each = {kind: 9 * (6 if bench.quick else EPOCHS) * formula[kind] for kind in "pqu"}
            gap += sum(abs(found["bytes_by_kind"][kind] - each[kind]) for kind in "pqu")
            saved[bits, dual] = 1 - sum(formula[kind] for kind in "pqu") / sum(full[kind] for kind in "pqu")
    losses = {
        graph: statistics.fmean(runs_of(bench, graph, "pdadmm"))
        - statistics.fmean(runs_of(bench, graph, "pdadmm", "--quantize", 8))
        for graph in ("cora", "citeseer")
    }
    bench.runs |= {"saved": {" ".join(key): value for key, value in saved.items()}, "accuracy lost": losses}
    worst = max(losses.values())
    shown = ", ".join(f"{graph} {loss:+.4f}" for graph, loss in losses.items())
    return [
        Reading(value=gap, text=f"{gap:,} bytes of difference; 32, 16 and 8 bits, u sent and computed, 9 boundaries"),
        Reading(value=saved["8", "sent"], text=f"−{saved['8', 'sent']:.1%}; 16 bits −{saved['16', 'sent']:.1%}"),
        Reading(
            value=saved["8", "computed"], text=f"−{saved['8', 'computed']:.1%}; 16 bits −{saved['16', 'computed']:.1%}"
        ),
        Reading(value=worst, text=f"{worst:.4f} lost at most ({shown}), 5 seeds"),
    ]


def time_on_two(bench: Bench) -> list[Reading]:
    """Iterations/s of two processes over one: pdADMM-G, and back-propagation in micro-batches through both."""
    size = ("--width", 200, "--iterations", 3) if bench.quick else ("--width", 1000, "--iterations", 20)
    ways: dict[str, tuple[object, ...]] = {"pdADMM-G": (), "pipeline": (*ADAM, MICROS_ON_TWO)}
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for repeat in range(1 if bench.quick else REPEATS):
        for name, flags in ways.items():
            for hosts in (1, 2) if repeat % 2 == 0 else (2, 1):
                found[name, hosts] = layers_run(hosts, "--layers", 16, *size, *flags)
            ratios[name].append(found[name, 1]["seconds"] / found[name, 2]["seconds"])
    whole = layers_run(1, "--layers", 16, *size, *ADAM, 1)["seconds"]
    last = {f"{name}, {hosts}": one for (name, hosts), one in found.items()}
    bench.runs |= {"ratios": ratios, "last": last, "Adam, one process, one batch": whole}
    readings = []
    for name, each in ratios.items():
        one, two = found[name, 1], found[name, 2]
        middle = statistics.median(each)
        text = (
            f"{middle:.2f}× (spread {min(each):.2f}–{max(each):.2f}); {1e3 * one['seconds']:.0f} and "
            f"{1e3 * two['seconds']:.0f} ms an iteration, {' + '.join(map(str, two['layers_by_host']))} layers"
        )
        beside = f"; one process without micro-batches {1e3 * whole:.0f} ms" if name == "pipeline" else ""
        readings.append(Reading(value=middle, text=text + beside))
    return readings


def layers_run(hosts: int, *flags: object) -> dict[str, Any]:
    """What peers/hosts/any2vec_layers.py tells, of so many processes of this machine."""
    command = [sys.executable, str(script_of("any2vec_layers.py")), *map(str, flags)]
    own = {"WORLD_SIZE": str(hosts), "LOCAL_WORLD_SIZE": str(hosts)}
    own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT)}
    processes = []
    for rank in range(hosts):
        more = own | {"RANK": str(rank), "LOCAL_RANK": str(rank)} if hosts > 1 else {}
        environment = os.environ | ONE_BLAS_THREAD | more
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=ROOT))
    try:
        reported = [process.communicate(timeout=600)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        raise RowError("a host of peers/hosts/any2vec_layers.py failed")
    found: dict[str, Any] = json.loads(reported[0].splitlines()[-1])
    return found


def path(bench: Bench) -> list[Reading]:
    """Sum of the layers' measured times over that of the dearest host: one layer a host, and hidden layers alone.

    Back-propagation on as many hosts, at best: the time of its layers in one process, and the schedule's bubbles; of
    the numbers of micro-batches the best.
    """
    size = ("--width", 100 if bench.quick else 1000, "--iterations", 8)
    found, balanced, piped = {}, {}, {}
    for depth in DEPTHS[:1] if bench.quick else DEPTHS:
        hosts = list(range(depth + 1))
        spent = layers_run(1, "--layers", depth, *size)["seconds_by_layer"]
        found[depth] = critical_path(spent, hosts), max(spent)
        hidden = spent[1:-1]
        balanced[depth] = critical_path(hidden, list(range(len(hidden) + 1))) / len(hidden)
        whole = sum(layers_run(1, "--layers", depth, *size, *ADAM, 1)["seconds_by_layer"])
        for micros in MICROS:
            costs = layers_run(1, "--layers", depth, *size, *ADAM, micros)["seconds_by_layer"]
            seconds = sum(costs) / pipeline_path(costs, hosts, micros)
            piped[depth] = max(piped.get(depth, (0.0, 0.0, 0)), (whole / seconds, seconds, micros))
    bench.runs |= {"sum over max": found, "hidden layers, of their number": balanced, "pipeline": piped}
    reported = ", ".join(f"{depth} layers {value:.1f}× ({1e3 * most:.0f} ms)" for depth, (value, most) in found.items())
    beside = ", ".join(
        f"{depth} layers {value:.1f}× ({1e3 * seconds:.0f} ms, {micros} micro-batches)"
        for depth, (value, seconds, micros) in piped.items()
    )
    least = min(balanced.values())
    return [
        Reading(
            value=min(value for value, _ in found.values()),
            text=f"{reported}; one layer a host, the first has 5,732 inputs; modeled from measured layers",
        ),
        Reading(value=min(value for value, _, _ in piped.values()), text=f"{beside}; modeled, over one process"),
        Reading(value=least, text=f"{least:.2f} of linear at the least; {', '.join(map(str, balanced))} layers"),
    ]


def link_bound(bench: Bench) -> list[Reading]:
    """Seconds of an iteration over a capped link with 16 and 8 bits, over 32: how far it follows the bytes."""
    flags = (
        "--layers",
        4,
        "--width",
        1000,
        "--inputs",
        1000,
        "--iterations",
        2 if bench.quick else 8,
        "--dual",
        "computed",
    )
    found: dict[str, dict[str, Any]] = {}
    with network(2, RATE) as net:
        goodput = net.goodput()
        for bits in ("none", "16", "8"):
            command = [sys.executable, script_of("any2vec_layers.py"), *flags, "--quantize", bits]
            found[bits] = json.loads(net.run(command, {}, 600)[0].splitlines()[-1])
    bench.runs |= {"tbf": {"rate": RATE, "burst": BURST, "queue": QUEUE, "goodput": goodput}, "runs": found}
    return [Reading(value=_worst(found), text=_warned(found, goodput))]


def _worst(found: dict[str, dict[str, Any]]) -> float:
    """Largest |share of the time - share of the bytes| of 16 and of 8 bits."""
    full = found["none"]
    return max(
        abs(found[bits]["seconds"] / full["seconds"] - _most(found[bits]["bytes"]) / _most(full["bytes"]))
        for bits in ("16", "8")
    )


def _most(counts: Sequence[float]) -> float:
    return max(counts)


def _warned(found: dict[str, dict[str, Any]], goodput: float) -> str:
    full = found["none"]
    each = ", ".join(
        f"{32 if bits == 'none' else bits} bits {1e3 * one['seconds']:.0f} ms and {sum(one['bytes']) / 1e3:.0f} kB "
        f"({one['seconds'] / full['seconds']:.2f} of the time, {sum(one['bytes']) / sum(full['bytes']):.2f} of bytes)"
        for bits, one in found.items()
    )
    return f"{each}; measured goodput {goodput / 1e6:.1f} Mbit/s"


ROWS = (
    Row(
        name="theory", run=theory, minutes=0.5,
        measures=(
            Measure(
                name="rho > 4 nu, 100 iterations, 10 layers: the Lagrangian falls by Lemma 1's amount, u as in Lemma 4",
                relation=">=", target=1, wording="asserted",
            ),
        ),
    ),
    Row(
        name="exactness", run=exactness, minutes=2,
        measures=(
            Measure(name="Layers whose weights differ from one host's", relation="<=", target=0, wording="0"),
        ),
    ),
    Row(
        name="bytes", run=counted_bytes, minutes=8,
        measures=(
            Measure(name="Counted bytes of p, q and u less the formula's", relation="<=", target=0, wording="0"),
            Measure(name="8 bits for p and q, u sent: bytes saved", relation=">=", target=0.499, wording="50 %"),
            Measure(name="8 bits for p and q, u computed: bytes saved", relation=">=", target=0.833, wording="83 %"),
            Measure(name="8 bits: test accuracy lost on Cora and Citeseer", relation="<=", target=0.01),
        ),
    ),
    Row(
        name="two-processes", run=time_on_two, minutes=4,
        measures=(
            Measure(
                name="16 layers of 1,000, 2 processes over 1, one BLAS thread each: iterations/s", relation=">=",
                target=LEAST_SPEED, unit="x",
            ),
            Measure(
                name="The same by back-propagation (Adam, 4 micro-batches): steps/s", relation="", wording="reported"
            ),
        ),
    ),
    Row(
        name="critical-path", run=path, minutes=2,
        measures=(
            Measure(
                name="8 to 17 layers of 1,000: sum of the layers' times over the longest", relation="",
                wording="reported",
            ),
            Measure(
                name="Back-propagation through as many hosts (GPipe): steps/s over one process", relation="",
                wording="reported",
            ),
            Measure(
                name="Hidden layers alone, one a host: of linear", relation=">=", target=SCALES, wording="within 10 %"
            ),
        ),
    ),
    Row(
        name="link-bound", run=link_bound, minutes=2,
        measures=(
            Measure(
                name="Boundary at tbf 50 Mbit/s: time and bytes of 16 and 8 bits over those of 32, largest difference",
                relation="<=", target=0.1, wording="time follows bytes, within 0.1",
            ),
        ),
    ),
)  # fmt: skip
