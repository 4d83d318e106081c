"""What is wrong with a run over hosts, and known without them, is said before one is started."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import any2vec
from any2vec.cluster.launch import join
from any2vec.cluster.threads import single_host_transport
from any2vec.errors import InputError, JobError, StorageError
from any2vec.options.run import RunOptions
from any2vec.train import fit as fit_module
from any2vec.train import launch, run
from any2vec.train.spec import Hooks, RunSpec
from spreads import spread

MODEL = any2vec.SkipGram(dim=4, min_count=1)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text; no host may be started."""
    monkeypatch.setattr(launch, "_start", lambda *_: pytest.fail("a host was started"))
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat and the dog sat on the cat\n" * 20)
    return path


def test_pytorch_is_missing(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"^Hosts as processes need PyTorch; in a clone: pip install .*constraints"):
        any2vec.fit(MODEL, text, hosts=2)


def test_other_settings_than_those_of_the_run_to_go_on_with(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run and one with a checkpoint; the data are not even looked for."""
    monkeypatch.setattr(join, "check_torch", lambda: None)
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


def test_a_finished_run_whose_summary_is_damaged(text: Path) -> None:
    out = text.parent / "out"
    any2vec.fit(MODEL, text, out=out, threads=1, epochs=1)
    any2vec.fit(MODEL, text, out=out, threads=1, epochs=1, resume=True)
    about = (out / "run.json").read_text()
    (out / "run.json").write_text(about.replace("items_per_s", "items_per_t"))
    with pytest.raises(InputError, match=r"out is no run that can go on \(run\.json is damaged, or of a version"):
        any2vec.fit(MODEL, text, out=out, threads=1, epochs=1, resume=True)


def test_the_same_command_again_where_a_checkpoint_lies(text: Path) -> None:
    out = text.parent / "out"
    out.mkdir()
    (out / "checkpoint.safetensors").touch()
    with pytest.raises(
        StorageError, match=r"out holds an unfinished run: go on from its checkpoint with --resume \(res"
    ):
        any2vec.fit(MODEL, text, out=out)


def job(model: Any = MODEL, text: Any = None, **options: Any) -> str:
    """What the hosts of a run compare."""
    reading = {} if text is None else {"text": text}
    run = RunOptions(epochs=1, threads=1)
    spec = RunSpec(task="words", model=model, data="text.txt", reading=reading, run=run, **spread(**options))
    return spec.fingerprint()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: job(any2vec.SkipGram(dim=5, min_count=1)), "dim = 5 and rank 0 has 4"),
        (lambda: job(any2vec.CBOW(dim=5, min_count=1)), "model = 'cbow' and rank 0 has 'skipgram'"),
        (lambda: job(sync="mean", bits=8), "sync = 'mean' and rank 0 has none"),
        (lambda: job(overlap=True), "overlap = True and rank 0 has False"),
        (lambda: job(text=any2vec.TextOptions(lowercase=True)), "lowercase = True and rank 0 has none"),
    ],
)
def test_the_first_setting_in_which_hosts_differ(make: Callable[[], str], said: str) -> None:
    alike = join.metadata(job())
    join.compare([alike, join.metadata(job())])
    with pytest.raises(JobError) as caught:
        join.compare([alike, alike, join.metadata(make())])
    assert str(caught.value) == f"Rank 2 has {said}; give all hosts the same command."


def test_hosts_that_torchrun_has_started_need_no_number(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says how many: the options of several hosts are no mistake."""
    pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"^--bits \(bits = 8\) is for several hosts"):
        any2vec.fit(MODEL, text, sync=any2vec.SyncOptions(bits=8))
    for name, value in {"RANK": "0", "WORLD_SIZE": "0"}.items():
        monkeypatch.setitem(os.environ, name, value)
    with pytest.raises(InputError, match="WORLD_SIZE must be"):
        any2vec.fit(MODEL, text, sync=any2vec.SyncOptions(bits=8))


@pytest.mark.parametrize(
    ("options", "world", "said"),
    [
        (
            {"logical_hosts": 3},
            "1",
            r"^--logical-hosts \(logical_hosts = 3\) does nothing where torchrun, .*, or unset these two\.",
        ),
        ({"hosts": 2, "restarts": 3}, "2", r"^--restarts \(restarts = 3\) does nothing .* torchrun --max-restarts\."),
        ({"hosts": 2, "ray": "auto"}, "2", r"^--ray \(ray = 'auto'\) does nothing where torchrun"),
        (
            {"hosts": 8},
            "2",
            r"^--hosts 8 is for 8 processes, and torchrun, or who set WORLD_SIZE, has started 2; start",
        ),
    ],
)
def test_hosts_that_torchrun_has_started_start_none(
    options: dict[str, Any], world: str, said: str, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options that would do nothing are refused; the number of hosts that there are is not, nor what a parent says."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(InputError, match=said):
        any2vec.fit(MODEL, text, hosts=any2vec.HostOptions(**options))
    monkeypatch.setattr(fit_module, "run_joined", lambda *_: None)
    assert any2vec.fit(MODEL, text, hosts=int(world)).embeddings is None
    hosts = any2vec.HostOptions(**options)
    spec = RunSpec(task="words", model=MODEL, data=str(text), run=RunOptions(out=text.parent / "out"), hosts=hosts)
    fit_module.train(spec, Hooks(), 0.0, is_worker=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("LOCAL_WORLD_SIZE", "x"), ("LOCAL_WORLD_SIZE", "0"), ("TORCHELASTIC_RESTART_COUNT", "x"), ("RANK", "00")],
)
def test_a_variable_that_is_no_number(name: str, value: str, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before hosts meet, and before there is work to be lost."""
    for variable, usual in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(variable, usual)
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=rf"{name} must be a whole number.*got '?{value}"):
        any2vec.fit(MODEL, text)


def test_a_place_on_the_machine_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0x")
    with pytest.raises(InputError, match="LOCAL_RANK must be a whole number, as torchrun sets it"):
        run._read_in_turn(single_host_transport(), lambda: None)


def test_logical_hosts_are_never_silent(text: Path) -> None:
    with pytest.raises(InputError, match=r"^--host-timeout is for processes: logical hosts are threads of this one"):
        any2vec.fit(MODEL, text, hosts=any2vec.HostOptions(logical_hosts=2, host_timeout=1))
