"""Damaged inputs against every reader; and that the fuzzer sees what it looks for."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from any2vec.errors import DataError
from fuzz.damage import damaged
from fuzz.run import fuzz, try_one
from fuzz.samples import make_samples
from fuzz.targets import Rng, Target

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stores of partitions need Linux")


@pytest.mark.slow
def test_a_thousand_damaged_inputs_are_read_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="models of clicks need torch")
    pytest.importorskip("feedparser", reason="feeds need the extra any2vec[streams]")
    make_samples(tmp_path)
    failures = fuzz(1000, 2, tmp_path)
    assert not failures, "\n".join(map(str, failures))


def refuses(work: Path, rng: Rng) -> None:
    raise DataError("Line 3 has no weight.")


def fails(work: Path, rng: Rng) -> None:
    raise KeyError("x")


def says_much(work: Path, rng: Rng) -> None:
    raise DataError("one\ntwo")


def never_ends(work: Path, rng: Rng) -> None:
    while True:
        try:
            time.sleep(1)
        except Exception:
            continue


def warns(work: Path, rng: Rng) -> None:
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)


def leaves_a_file(work: Path, rng: Rng) -> None:
    (work / ".meta.json.1.tmp").touch()


def leaves_a_result(work: Path, rng: Rng) -> None:
    (work / "out").mkdir()
    refuses(work, rng)


def fails_aside(work: Path, rng: Rng) -> None:
    class Odd:
        def __del__(self) -> None:
            raise ValueError("aside")

    Odd()


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (refuses, ""), (lambda work, rng: None, ""), (fails, "KeyError"), (says_much, "not one sentence"),
        (never_ends, "no end within 0.2 s"), (warns, "warns: RuntimeWarning"), (leaves_a_file, "left behind: .meta"),
        (leaves_a_result, "left behind: out"), (fails_aside, "unraisable: ValueError: aside"),
    ],
)  # fmt: skip
def test_what_is_looked_for_is_seen(tmp_path: Path, run: object, what: str) -> None:
    said = try_one(Target("x", (), run), tmp_path, np.random.default_rng(0), 0.2)  # type: ignore[arg-type]
    assert what in said and bool(what) == bool(said)


def test_the_same_number_is_the_same_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.run.KEPT", tmp_path / "kept")
    seen: list[bytes] = []

    def note(work: Path, rng: Rng) -> None:
        seen.append(damaged((work / "a").read_bytes(), rng))
        assert len(seen) % 4, "kept"

    (tmp_path / "a").write_bytes(b'{"a": [1, 2, {"b": "c"}]} ' * 9)
    for first in (0, 4, 0):
        failures = fuzz(4, 1, tmp_path, first=first, targets=[Target("x", ("a",), note)])
        assert [failure.number for failure in failures] == [first + 3]
    assert seen[:4] == seen[8:] and len(set(seen)) > 6
    assert (tmp_path / "kept" / "1-7" / "a").exists()
