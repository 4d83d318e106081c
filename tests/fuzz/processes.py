"""Damaged inputs given to the installed command, each to a process of its own, as a user would.

    python tests/fuzz/run.py --by-command [--count 500] [--seed 1] [--processes 2]     goes on where it stopped
    python tests/fuzz/run.py --by-command --show                                       what was tried so far

Input N of a seed is the same in every run. A process reads its input and ends with 0, or refuses it in one sentence and
ends with 2. A failure is a traceback, a warning, another exit code, a process without an end, one that leaves others
running, and what is left on the disk. Verdicts are kept one by one in runs/fuzz, and the files of failures. Those of
another commit, or of other targets, do not count: their inputs are given again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.leftovers import left_behind
from fuzz.samples import make_samples
from fuzz.targets import TARGETS, Target, command, copy

COMMAND = (str(Path(sys.executable).with_name("any2vec")),)
PATIENCE = 180.0
"""seconds for a process to end, which may have a kernel to compile on a busy machine"""
_NOISE = re.compile(r"Traceback|Exception ignored|\w+Warning: |Segmentation|core dumped")
_OUT = ("--out", "out")
_DIM = ("--dim", "4", "--epochs", "1", "--min-count", "1", "--quiet", *_OUT)
_ENTITIES = ("--dim", "4", "--epochs", "1", "--quiet", *_OUT)
_BUILD = ("--features", "x.npy", "--labels", "labels.txt", "--split", "split.npz", "--quiet", *_OUT)
_VECTORS = ("v.txt", "v.bin", "v.fasttext.bin", "v.glove", "v.parquet", "v.arrow", "v.npz")
READERS = (
    command("train", ("lines.jsonl",), "train", "skipgram", "lines.jsonl", "--column", "text", *_DIM),
    command("train", ("ids.npy",), "train", "skipgram", "ids.npy", *_DIM),
    *(command("train", (name,), "train", "deepwalk", name, *_ENTITIES)
      for name in ("edges.txt", "weighted.csv", "graph.mtx")),
    *(command("train", (name,), "train", "complex", name, *_ENTITIES)
      for name in ("triples.tsv", "triples.csv", "triples.nt")),
    *(command("train", (name, *{"clicks.csv", "schema.toml"} - {name}), "train", "deepfm", "clicks.csv", "--schema",
              "schema.toml", "--dim", "4", "--quiet", *_OUT) for name in ("clicks.csv", "schema.toml")),
    *(command("graph build", (name, *{"edges.txt", "x.npy", "labels.txt", "split.npz"} - {name}), "graph", "build",
              "edges.txt", *_BUILD) for name in ("x.npy", "labels.txt", "split.npz")),
    *(command("nearest", (name,), "nearest", name, "w1", "w2") for name in _VECTORS),
    *(command("nearest", (name, "v.vocabulary.tsv"), "nearest", name, "w1") for name in ("v.safetensors", "v.npy")),
    command("nearest", ("v.vocabulary.tsv", "v.npy"), "nearest", "v.npy", "w1"),
    command("export", ("subwords",), "export", "subwords", "--out", "out.fasttext.bin"),
    command("analogy", ("questions.txt", "words"), "evaluate", "words", "--task", "analogy", "--data", "questions.txt"),
    command("nodes", ("labels.txt", "words"), "evaluate", "words", "--task", "nodes", "--data", "labels.txt"),
    command("nearest", ("entities",), "nearest", "entities", "--relations", "r1"),
    command("report", ("words",), "report", "words", "--out", "out.html", "--map-items", "10"),
)  # fmt: skip
"""readers that only functions of Python are asked for elsewhere, each through a command that reads with it"""
BY_COMMAND = (*(target for target in TARGETS if target.ask), *READERS)


def ask(line: Sequence[str], work: Path, patience: float = PATIENCE) -> tuple[int, str]:
    """Exit code of a process that runs in a folder, and what is wrong with its answer; nothing: all is right."""
    (work / "tmp").mkdir()
    env = os.environ | {
        "TMPDIR": str(work / "tmp"),
        "COLUMNS": "200",
        "ANY2VEC_DEBUG": "0",
        "PYTHONWARNINGS": "default",
    }
    process = subprocess.Popen(
        line, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, said = (part.decode("utf-8", "replace").strip() for part in process.communicate(timeout=patience))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return process.returncode, f"no end within {patience:g} s"
    code = process.returncode
    if _NOISE.search(said):
        return code, f"says: {said[-2000:]}"
    if code not in (0, 2):
        return code, f"ends with {code}: {said[-2000:]}"
    if code == 2 and (not said.startswith("Error: ") or "\n" in said or out):
        return code, f"not one sentence: {said[-2000:]!r}, and {out[-500:]!r} on standard output"
    if is_alive(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
        return code, "leaves processes behind"
    return code, left_behind(work, code == 2)


def is_alive(group: int) -> bool:
    """Whether a process of a group lives."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def try_one(
    number: int, seed: int, samples: Path, kept: Path, targets: Sequence[Target] = BY_COMMAND
) -> dict[str, Any]:
    """Give input `number` of a seed to its command; what is to be kept of it."""
    target, rng = targets[number % len(targets)], np.random.default_rng((seed, number, 1))
    work = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        copy(samples, work, target.samples)
        assert target.ask is not None
        arguments, began = target.ask(work, rng), time.monotonic()
        code, wrong = ask([*COMMAND, *arguments], work)
        if wrong:
            shutil.rmtree(kept / f"{seed}-command-{number}", ignore_errors=True)
            shutil.copytree(work, kept / f"{seed}-command-{number}", symlinks=True, ignore_dangling_symlinks=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    written = [argument.encode("utf-8", "backslashreplace").decode() for argument in arguments]
    return {
        "number": number, "target": target.name, "arguments": written, "code": code, "wrong": wrong,
        "seconds": round(time.monotonic() - began, 2),
    }  # fmt: skip


def read_verdicts(path: Path) -> list[dict[str, Any]]:
    """What earlier runs kept; a last line that a stopped one left half written is taken away."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        path.write_text("".join(lines[:-1]))
    return [json.loads(line) for line in lines if line.endswith("\n")]


def state() -> dict[str, str]:
    """What verdicts are of: the commit, and a digest of what makes inputs; verdicts of others do not count."""
    here = Path(__file__).parent
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], cwd=here, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(here.glob("*.py")):
        digest.update(path.read_bytes())
    return {"commit": asked.stdout.strip(), "targets": digest.hexdigest()}


def go_on(numbers: Sequence[int], seed: int, kept: Path, processes: int) -> Iterator[dict[str, Any]]:
    """Try these numbers, so many at a time; verdicts in the order in which processes end."""
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-samples-") as folder,
        ThreadPoolExecutor(processes, "fuzz") as pool,
    ):
        make_samples(Path(folder))
        asked = [pool.submit(try_one, number, seed, Path(folder), kept) for number in numbers]
        try:
            for one in as_completed(asked):
                yield one.result()
        finally:
            pool.shutdown(cancel_futures=True)


def run(count: int, seed: int, kept: Path, processes: int) -> int:
    """Try what is missing of so many inputs, keep the verdicts, print the counts; the exit code."""
    kept.mkdir(parents=True, exist_ok=True)
    path = kept / f"by-command-{seed}.jsonl"
    kept_before, of = read_verdicts(path), state()
    done = [one for one in kept_before if one.items() >= of.items()]
    if others := len(kept_before) - len(done):
        print(f"{others:,} verdicts of another commit or of other targets do not count", flush=True)
    missing = sorted(set(range(count)) - {one["number"] for one in done})
    began = time.monotonic()
    for verdict in go_on(missing, seed, kept, processes) if missing else ():
        one = verdict | of
        done.append(one)
        with path.open("a") as file:
            file.write(json.dumps(one) + "\n")
        if one["wrong"]:
            print(
                f"input {one['number']} ({one['target']}): {' '.join(one['arguments'])}\n  {one['wrong']}", flush=True
            )
        if len(done) % 50 == 0:
            print(f"{len(done):,} tried, {time.monotonic() - began:.0f} s", flush=True)
    for (name, end), num in sorted(Counter((one["target"], outcome(one)) for one in done).items()):
        print(f"{num:4}  {name:28}{end}")
    num_failures = sum(bool(one["wrong"]) for one in done)
    print(f"{len(done):,} inputs by the command: {num_failures} failures", flush=True)
    return 1 if num_failures else 0


def outcome(one: dict[str, Any]) -> str:
    return "failed" if one["wrong"] else "refused" if one["code"] == 2 else "read"
