"""What is wrong with a run over hosts, and known without them, is said before one is started."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import any2vec
from any2vec.cluster.launch import join as launch
from any2vec.errors import InputError, JobError, StorageError
from any2vec.sync.options.hosts import HostOptions
from any2vec.train import spread
from any2vec.train.call import Call

MODEL = any2vec.SkipGram(dim=4, min_count=1)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text; no host may be started."""
    monkeypatch.setattr(spread, "_start", lambda *_: pytest.fail("a host was started"))
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat and the dog sat on the cat\n" * 20)
    return path


def test_pytorch_is_missing(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"^Hosts as processes need PyTorch; in a clone: pip install .*/whl/cpu "):
        any2vec.fit(MODEL, text, hosts=2)


def test_other_settings_than_those_of_the_run_to_go_on_with(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run and one with a checkpoint; the data are not even looked for."""
    monkeypatch.setattr(launch, "check_torch", lambda: None)
    out = text.parent / "out"
    any2vec.fit(MODEL, text, out=out, threads=1, epochs=1)
    for is_finished in (True, False):
        if not is_finished:
            (out / "meta.json").rename(out / "checkpoint.safetensors")
        for hosts in (2, None):
            with pytest.raises(
                InputError, match=r"out is of a run with model\.dim = 4, this one has 5; resume with the"
            ):
                any2vec.fit(
                    any2vec.SkipGram(dim=5, min_count=1), "missing", out=out, epochs=1, resume=True, hosts=hosts
                )
            with pytest.raises(InputError, match=r"of a run with epochs = 1, this one has 2"):
                any2vec.fit(MODEL, "missing", out=out, epochs=2, resume=True, hosts=hosts)


def test_a_run_that_left_nothing_is_begun_anew_with_any_settings(text: Path) -> None:
    out = text.parent / "out"
    out.mkdir()
    (out / "run.json").write_text(json.dumps({"format": "any2vec-embeddings", "settings": {"epochs": 9}}))
    assert any2vec.fit(MODEL, text, out=out, threads=1, epochs=1, resume=True).summary["epochs"] == 1


def test_the_same_command_again_where_a_checkpoint_lies(text: Path) -> None:
    out = text.parent / "out"
    out.mkdir()
    (out / "checkpoint.safetensors").touch()
    with pytest.raises(
        StorageError, match=r"out holds an unfinished run: go on from its checkpoint with --resume \(res"
    ):
        any2vec.fit(MODEL, text, out=out)


def job(model: Any = MODEL, text: Any = None, **hosts: Any) -> str:
    """What the hosts of a call compare."""
    call = Call(
        model=model, data="text.txt", epochs=1, threads=1, seed=1, out=None, resume=False, init=None, callback=None,
        on_epoch=None, stage=None, checkpoint_seconds=300.0, text=text, graph=None, cache_dir=None,
        hosts=HostOptions(**hosts), started=time.perf_counter(),
    )  # fmt: skip
    return call._fingerprint()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: job(any2vec.SkipGram(dim=5, min_count=1)), "dim = 5 and rank 0 has 4"),
        (lambda: job(any2vec.CBOW(dim=5, min_count=1)), "model = 'cbow' and rank 0 has 'skipgram'"),
        (lambda: job(sync="mean", bits=8), "sync = 'mean' and rank 0 has 'blend'"),
        (lambda: job(overlap=True), "overlap = True and rank 0 has False"),
        (lambda: job(text=any2vec.TextOptions(lowercase=True)), "lowercase = True and rank 0 has none"),
    ],
)
def test_the_first_setting_in_which_hosts_differ(make: Callable[[], str], said: str) -> None:
    alike = launch.facts(job())
    launch.compare([alike, launch.facts(job())])
    with pytest.raises(JobError) as caught:
        launch.compare([alike, alike, launch.facts(make())])
    assert str(caught.value) == f"Rank 2 has {said}; give all hosts the same command."


def test_hosts_that_torchrun_has_started_need_no_number(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says how many: the options of several hosts are no mistake."""
    pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"^--bits \(bits = 8\) is for several hosts"):
        any2vec.fit(MODEL, text, hosts=HostOptions(bits=8))
    for name, value in {"RANK": "0", "WORLD_SIZE": "0"}.items():
        monkeypatch.setitem(os.environ, name, value)
    with pytest.raises(InputError, match="WORLD_SIZE must be"):
        any2vec.fit(MODEL, text, hosts=HostOptions(bits=8))
