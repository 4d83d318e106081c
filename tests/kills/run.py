"""Runs that are killed, told to stop, or meet a full disk, and then go on: nothing may be lost.

    python tests/kills/run.py [--count 300] [--seed 1] [--only NAME]      goes on where it stopped
    python tests/kills/run.py --show                                      what was tried so far

Kill N of a seed is the same case, by the same means, at the same share of the time that the run takes alone. Behind it
the run goes on by --resume, or, what has none, begins again, and has to end as one that nobody stopped: with the same
bits, one thread training, or, of a stream, each line trained once. Nothing temporary may be left. Verdicts are kept one
by one in runs/kills.

    kill    SIGKILL
    stop    SIGTERM; the command ends by itself, soon, and says that it was interrupted
    full    its folder is a file system that fills up (for root alone); the command says so and ends with code 2
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kills.cases import CASES, Case, make_inputs

FOLDER = Path(__file__).resolve().parents[2] / "runs" / "kills"
MEANS = ("kill", "stop", "full") if hasattr(os, "geteuid") and os.geteuid() == 0 else ("kill", "stop")
PATIENCE = 120.0
"""seconds for a command to end by itself"""
_LARGE = 256 << 20
"""bytes of the file system once there is room again"""


class LostError(Exception):
    """What a run that was stopped did not keep, or left behind."""


def command(case: Case, *more: str) -> list[str]:
    return [sys.executable, "-m", "any2vec", *case.arguments, "--out", "out/run", *more]


def ended(process: subprocess.Popen[str], what: str) -> str:
    """Wait for a command; what it wrote to standard error. LostError: it does not end."""
    try:
        return process.communicate(timeout=PATIENCE)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise LostError(f"{what}: no end within {PATIENCE:g} s") from None


def begun(case: Case, work: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(case, *more), cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(case: Case, work: Path, *more: str) -> None:
    """Let the run come to its end. LostError: it does not."""
    process = begun(case, work, *more)
    said = ended(process, "going on")
    if process.returncode:
        raise LostError(f"going on ended with {process.returncode}: {said.strip()[-600:]}")


def interrupt(case: Case, work: Path, means: str, at: float) -> str:
    """Stop a run by SIGKILL or SIGTERM, `at` seconds behind its start; how it ended.

    Raises:
        LostError: it did not end as it should.
    """
    process = begun(case, work)
    try:
        process.wait(at)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL if means == "kill" else signal.SIGTERM)
    said = ended(process, means)
    wanted = {"kill": {0, -signal.SIGKILL}, "stop": {0, 130, -signal.SIGINT, -signal.SIGTERM}}[means]
    if process.returncode not in wanted or "Traceback" in said:
        raise LostError(f"{means} at {at:.2f} s: ended with {process.returncode}: {said.strip()[-600:]}")
    return "over before" if process.returncode == 0 else f"ended with {process.returncode}"


def fill(case: Case, work: Path, num_bytes: int) -> str:
    """Run on a file system of so many bytes; how it ended. Then there is room.

    Raises:
        LostError: it did not end as it should.
    """
    subprocess.run(["mount", "-o", f"remount,size={num_bytes}", str(work / "out")], check=True)
    process = begun(case, work)
    said = ended(process, "full")
    subprocess.run(["mount", "-o", f"remount,size={_LARGE}", str(work / "out")], check=True)
    is_refused = process.returncode == 2 and said.startswith("Error: ") and "\n" not in said.strip()
    if process.returncode and not is_refused:
        raise LostError(f"full at {num_bytes:,} bytes: ended with {process.returncode}: {said.strip()[-600:]}")
    return "enough room" if process.returncode == 0 else "disk full"


@contextmanager
def workplace(inputs: Path, has_limit: bool) -> Iterator[Path]:
    """A folder with the inputs, and in it `out`, perhaps a file system of its own."""
    work = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        for path in inputs.iterdir():
            (work / path.name).symlink_to(path)
        (work / "out").mkdir()
        if has_limit:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_LARGE}", "tmpfs", str(work / "out")], check=True)
        yield work
    finally:
        if has_limit:
            subprocess.run(["umount", "-l", str(work / "out")], check=False)
        shutil.rmtree(work, ignore_errors=True)


def check_end(case: Case, work: Path, wanted: frozenset[str]) -> None:
    """LostError: the run folder is not that of a run which nobody stopped."""
    found = case.sign(work / "out" / "run")
    if found not in wanted:
        raise LostError(f"another result: {found} for {', '.join(sorted(wanted))}")
    rest = [str(path.relative_to(work)) for path in (work / "out").rglob("*") if path.name.endswith(".tmp")]
    rest += [path.name for path in work.iterdir() if not path.is_symlink() and path.name != "out"]
    if rest:
        raise LostError(f"left behind: {', '.join(rest)}")


def try_one(
    case: Case, inputs: Path, means: str, share: float, seconds: float, size: int, wanted: frozenset[str]
) -> str:
    """How a run ended that was stopped; LostError where something was lost.

    share: of `seconds`, or of `size`, bytes of the whole folder, at which it is stopped.
    """
    with workplace(inputs, means == "full") as work:
        if means == "full":
            how = fill(case, work, 4096 + int(share * size))
        else:
            how = interrupt(case, work, means, share * seconds)
        finish(case, work, *(case.again if (work / "out" / "run").exists() else ()))
        check_end(case, work, wanted)
    return how


def alone(case: Case, inputs: Path) -> tuple[float, int, frozenset[str]]:
    """Seconds, bytes and signatures of a run that nobody stops; before it another one compiles its kernels."""
    found = set()
    for more in ((), *case.variants):
        with workplace(inputs, False) as work:
            began = time.monotonic()
            finish(case, work, *more)
            seconds, out = time.monotonic() - began, work / "out"
            size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
            found.add(case.sign(out / "run"))
    return seconds, size, frozenset(found)


def drawn(number: int, seed: int, cases: tuple[Case, ...]) -> tuple[Case, str, float]:
    """Which case kill `number` is of, by what means, and at which share."""
    rng = np.random.default_rng((seed, number))
    return cases[number % len(cases)], MEANS[number // len(cases) % len(MEANS)], float(rng.uniform(0, 1.05))


def go_on(cases: tuple[Case, ...], numbers: range, seed: int, inputs: Path) -> Iterator[dict[str, Any]]:
    """Try the kills of these numbers, one after the other; what is to be kept of each."""
    make_inputs(inputs)
    known: dict[str, tuple[float, int, frozenset[str]]] = {}
    for number in numbers:
        case, means, share = drawn(number, seed, cases)
        if case.name not in known:
            known[case.name] = alone(case, inputs)
        one = {"number": number, "case": case.name, "means": means, "share": round(share, 4), "lost": ""}
        try:
            yield one | {"how": try_one(case, inputs, means, share, *known[case.name])}
        except LostError as error:
            print(f"{number} {case.name}, {means} at {share:.3f}: {error}", flush=True)
            yield one | {"how": "lost", "lost": str(error)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs that are stopped in many ways, and go on.")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--show", action="store_true", help="what was tried so far")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = FOLDER / f"{given.seed}{'-' * bool(given.only)}{given.only.replace(' ', '-')}.jsonl"
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    cases = tuple(case for case in CASES if given.only in case.name)
    numbers = range(len(done), len(done) if given.show else given.count)
    with tempfile.TemporaryDirectory(prefix="kills-inputs-") as folder:
        for one in go_on(cases, numbers, given.seed, Path(folder)):
            done.append(one)
            with kept.open("a") as file:
                file.write(json.dumps(one) + "\n")
    for (name, means, how), count in sorted(Counter((one["case"], one["means"], one["how"]) for one in done).items()):
        print(f"{count:4}  {name:18}{means:6}{how}")
    num_lost = sum(bool(one["lost"]) for one in done)
    print(f"{len(done)} tried, {num_lost} lost something")
    return 1 if num_lost else 0


if __name__ == "__main__":
    sys.exit(main())
