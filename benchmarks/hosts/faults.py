"""Row "faults": hosts that are killed, stopped or cut off, and how a job ends or goes on."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, family
from benchmarks.machine.namespaces import last_line, network, wait_for
from benchmarks.table import Measure, Reading, Row, RowError
from benchmarks.words.text import warm_up

HOSTS, VICTIM, RAY_HOSTS, TINY_HOSTS = 4, 2, 2, 2
EPOCHS, ROUNDS = 400, 12
"""far longer than any of these runs is let go on, unless it has to end by itself"""
WHOLE_EPOCHS = 12
CHECKPOINT_SECONDS = 4.0
"""long beside the half second by which the log that says what was done may lag"""
TINY_EPOCHS, TINY_CHECKPOINT_SECONDS = 60, 0.5
"""of a run that goes on, on a text that takes no time"""
LIMIT = 240.0
"""seconds after which a job that did not notice is ended by us"""


def faults(bench: Bench) -> list[Reading]:
    """Seconds to the error by kind of fault; rounds lost by kind of restart, in checkpoint intervals."""
    warm_up(bench, "skipgram")
    text = bench.words() if bench.quick else _text(bench)
    killed = _noticed(bench, text, "killed", lambda pid: os.kill(pid, signal.SIGKILL))
    # Silence takes half a minute to be noticed: not where rows only start.
    stopped = killed if bench.tiny else _noticed(bench, text, "stopped", lambda pid: os.kill(pid, signal.SIGSTOP))
    readings = [killed, stopped, _cut_off(bench, text)]
    return [*readings, _goes_on(bench, text, "local"), _goes_on(bench, text, "torchrun")]


def faults_on_ray(bench: Bench) -> list[Reading]:
    """Rounds lost where an actor of a local cluster is killed and the job starts again."""
    warm_up(bench, "skipgram")
    return [_goes_on(bench, bench.words() if bench.quick else _text(bench), "ray")]


def _noticed(bench: Bench, text: Path, what: str, hurt: Callable[[int], None]) -> Reading:
    """Seconds from the fault of one local process to the end of the job, whose error names it."""
    out = _fresh(bench, what)
    hosts, rank = _hosts(bench)
    with bench.job(_arguments(text, out, EPOCHS, "--hosts", hosts)) as (job, errors):
        victim = _rank_process(job, out, rank)
        hurt(victim)
        began = time.monotonic()
        codes = wait_for([job], LIMIT)
        seconds, said = time.monotonic() - began, last_line(errors)
    bench.runs[what] = {"seconds": seconds, "code": codes[0], "error": said}
    return _reading(seconds, codes, [said], rank)


def _cut_off(bench: Bench, text: Path) -> Reading:
    """Seconds until the hosts that can still reach each other have ended, once the link of one is down."""
    out = _fresh(bench, "cut")
    hosts, rank = _hosts(bench)
    with network(hosts) as net, tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{host}.txt" for host in range(hosts)]
        files = [path.open("w") for path in paths]
        environment = {"ANY2VEC_CACHE": str(bench.cache)}
        with (Path(folder) / "out.txt").open("w") as printed:
            jobs = net.start(_arguments(text, out, EPOCHS), files, printed, environment)
            try:
                _await_rounds(jobs, out, 2)
                net.cut(rank)
                began = time.monotonic()
                others = [job for host, job in enumerate(jobs) if host != rank]
                codes = wait_for(others, LIMIT)
                seconds = time.monotonic() - began
            finally:
                for job in jobs:
                    job.kill()
                    job.wait()
        for file in files:
            file.close()
        said = [last_line(path) for host, path in enumerate(paths) if host != rank]
    bench.runs["cut"] = {"seconds": seconds, "codes": codes, "errors": said}
    return _reading(seconds, codes, said, rank)


def _goes_on(bench: Bench, text: Path, how: str) -> Reading:
    """Rounds that a killed host costs, over those of a checkpoint interval; infinite where the result is not whole."""
    out = _fresh(bench, how)
    every, epochs = (TINY_CHECKPOINT_SECONDS, TINY_EPOCHS) if bench.tiny else (CHECKPOINT_SECONDS, WHOLE_EPOCHS)
    arguments = _arguments(text, out, epochs, "--checkpoint-seconds", every)
    launcher: tuple[object, ...] = ()
    hosts, rank = _hosts(bench)
    if how == "local":
        arguments += ["--hosts", hosts, "--restarts", 1]
    elif how == "ray":
        arguments += ["--hosts", RAY_HOSTS, "--ray", "local", "--restarts", 1]
    else:
        launcher = ("torch.distributed.run", "--standalone", f"--nproc-per-node={hosts}", "--max-restarts=1", "-m")
    with bench.job(arguments, launcher) as (job, errors):
        victim = _actor(job, out) if how == "ray" else _rank_process(job, out, rank)
        _await_file(job, out / "checkpoint.safetensors")
        time.sleep(0.8 * every)  # so that there is something to lose
        os.kill(victim, signal.SIGKILL)
        done = _rounds(out)
        began = time.monotonic()
        kept = _kept_rounds(out / "checkpoint.safetensors")
        codes = wait_for([job], 10 * LIMIT)
        seconds = time.monotonic() - began
        if codes[0] != 0:
            bench.runs[f"restart {how}"] = {"codes": codes, "error": last_line(errors)}
            return Reading(value=float("inf"), text=f"{how}: ended with {codes[0]}: {last_line(errors)[:160]}")
    from any2vec.train.progress import RECORD_SECONDS

    records = [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]
    is_whole = records[-1]["progress"] == 1.0 and _is_whole(out)
    pace = _pace(records)
    interval = every * pace + 1  # it is written where a round ends, so a round late at most
    lost = max(0, done + math.ceil(RECORD_SECONDS * pace) - kept)  # the log may be so far behind
    bench.runs[f"restart {how}"] = {
        "rounds done": done, "rounds kept": kept, "rounds of an interval": interval, "seconds to the result": seconds,
        "whole": is_whole,
    }  # fmt: skip
    text_ = f"{how}: at most {lost} rounds lost of {done}, an interval of {every:g} s is {interval:.1f}"
    return Reading(value=lost / interval if is_whole else float("inf"), text=f"{text_}; result whole: {is_whole}")


def _fresh(bench: Bench, name: str) -> Path:
    """A run folder in which nothing is left of a former run."""
    out = bench.scratch(f"faults-{name}")
    shutil.rmtree(out, ignore_errors=True)
    return out


def _is_whole(out: Path) -> bool:
    """Whether a run folder holds a result, all of it numbers."""
    import numpy as np

    from any2vec import Embeddings
    from any2vec.train.run_folder import is_finished

    return is_finished(out) and bool(np.isfinite(Embeddings.load(out).vectors).all())


def _pace(records: Sequence[dict[str, Any]]) -> float:
    """Rounds a second of training."""
    return float((records[-1]["round"] + 1) / max(records[-1]["seconds"], 1e-9))


def _arguments(text: Path, out: Path, epochs: int, *more: object) -> list[object]:
    return [
        "train", "skipgram", text, "--out", out, "--overwrite", "--epochs", epochs, "--threads", 1,
        "--rounds-per-epoch", ROUNDS, "--quiet", *more,
    ]  # fmt: skip


def _hosts(bench: Bench) -> tuple[int, int]:
    """How many there are, and the rank of the one that is hurt."""
    return (TINY_HOSTS, TINY_HOSTS - 1) if bench.tiny else (HOSTS, VICTIM)


def _rank_process(job: subprocess.Popen[str], out: Path, rank: int) -> int:
    """The process of a rank of a running job, once hosts have agreed a few times."""
    _await_rounds([job], out, 2)
    for pid in family(job.pid)[1:]:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"RANK={rank}".encode() in environment and any(one.startswith(b"WORLD_SIZE=") for one in environment):
            return pid
    raise RowError(f"no process of rank {rank} was found")


def _actor(job: subprocess.Popen[str], out: Path) -> int:
    """The process of a host of a running job on Ray, once hosts have agreed a few times."""
    _await_rounds([job], out, 2)
    for pid in family(job.pid):
        if b"HostActor" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise RowError("no process of an actor was found")


def _await_rounds(jobs: Sequence[subprocess.Popen[str]], out: Path, rounds: int) -> None:
    _await(jobs, lambda: _rounds(out) >= rounds)


def _await_file(job: subprocess.Popen[str], path: Path) -> None:
    _await([job], path.exists)


def _await(jobs: Sequence[subprocess.Popen[str]], is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_so():
        if any(job.poll() is not None for job in jobs):
            raise RowError("the run ended before anything could happen to it")
        if time.monotonic() > deadline:
            raise RowError(f"the run had not begun after {LIMIT:g} s")
        time.sleep(0.02)


def _rounds(out: Path) -> int:
    """Rounds that the log of the run at hand tells of."""
    try:
        lines = (out / "progress.jsonl").read_text().splitlines()
        return int(json.loads(lines[-1])["round"]) + 1 if lines else 0
    except (OSError, ValueError, KeyError):
        return 0


def _kept_rounds(checkpoint: Path) -> int:
    """Rounds that a checkpoint holds."""
    from any2vec.formats.safetensors_file import read_safetensors

    place = json.loads(read_safetensors(checkpoint, mmap=True)[1]["any2vec"])["place"]
    return int(place["epoch"] * place["rounds"] + place["rounds_done"])


def _reading(seconds: float, codes: Sequence[int | None], said: Sequence[str], victim: int) -> Reading:
    """Infinite unless all ended by an error and each error names the rank."""
    names = all(re.search(rf"\b[Rr]ank {victim}\b", line) for line in said)
    is_error = all(code not in (0, None) for code in codes)
    shown = f"{seconds:.1f} s: “{said[0][:150]}”"
    if names and is_error:
        return Reading(value=seconds, text=shown)
    return Reading(value=float("inf"), text=f"{shown}; codes {list(codes)}, rank named: {names}")


def _text(bench: Bench) -> Path:
    """The first part of the corpus: rounds of some tenths of a second."""

    def write(target: Path) -> None:
        with bench.words().open("rb") as text:
            target.write_bytes(text.read(8_000_000).rsplit(b"\n", 1)[0] + b"\n")

    return bench.made("enwiki2015.first-8000000.txt", write)


ROWS = (
    Row(
        name="faults",
        measures=(
            *(
                Measure(name=f"4 hosts, one {what}: to an error that names it", relation="<=", target=60, unit=" s")
                for what in ("killed (kill -9)", "stopped (SIGSTOP)", "cut off (its link is down)")
            ),
            *(
                Measure(
                    name=f"killed, with {how}: rounds lost over a checkpoint interval", relation="<=", target=1,
                    wording="≤ 1 interval, result whole",
                )
                for how in ("--restarts 1", "torchrun --max-restarts 1")
            ),
        ),
        run=faults,
        minutes=6,
    ),
    Row(
        name="faults-on-ray",
        measures=(
            Measure(
                name="2 hosts, one killed, with --ray local --restarts 1: rounds lost over a checkpoint interval",
                relation="<=", target=1, wording="≤ 1 interval, result whole",
            ),
        ),
        run=faults_on_ray,
        minutes=2,
    ),
)  # fmt: skip
