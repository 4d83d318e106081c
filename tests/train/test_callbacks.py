"""Callbacks of `fit`: what they are told, in which order, whatever ends the run; and what the built-in ones write."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import any2vec
from any2vec.callbacks import trackers
from any2vec.callbacks.progress_line import LINE_SECONDS, ProgressLine
from any2vec.errors import InputError
from any2vec.options.hosts import HostOptions
from any2vec.testing.planted_triples import PlantedTriples
from any2vec.train import progress

ROWS = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in PlantedTriples(entities=50, group=10).triples(0, 600).tolist()]
MODEL = any2vec.DistMult(dim=4, batch_size=100)


class Noting(any2vec.Callback):
    """Notes what it is told; raises at a record where it is asked to."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.told = fails, []  # type: ignore[var-annotated]

    def on_start(self, settings: Mapping[str, Any]) -> None:
        self.told.append(("start", settings["model"], settings["dim"], settings["epochs"]))

    def on_record(self, record: any2vec.Progress) -> None:
        self.told.append(("record", record.items))
        if self.fails:
            raise RuntimeError("enough")

    def on_validation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self.told.append(("validation", epoch, dict(metrics)))

    def on_end(self, summary: Mapping[str, Any] | None, error: BaseException | None) -> None:
        self.told.append(("end", None if summary is None else summary["best_epoch"], repr(error)))


def fit(*callbacks: any2vec.Callback, **options: Any) -> any2vec.FitResult:
    return any2vec.fit(MODEL, ROWS[:500], epochs=3, threads=1, validate=ROWS[500:], callbacks=callbacks, **options)


@pytest.mark.parametrize("hosts", [None, HostOptions(logical_hosts=2)], ids=["one", "two"])
def test_each_step_is_told_in_order(hosts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "RECORD_SECONDS", 1e9)  # so that a busy machine makes no more of them than epochs
    noting, records = Noting(), []  # type: ignore[var-annotated]
    made = fit(noting, hosts=hosts, callback=records.append)
    validations = [
        {name: value for name, value in one.items() if name != "epoch"} for one in made.summary["validation"]
    ]
    expected: list[Any] = [("start", "distmult", 4, 3)]
    for epoch, (record, metrics) in enumerate(zip(made.progress, validations, strict=True), 1):
        expected += [("record", record.items), ("validation", epoch, metrics)]
    assert noting.told == [*expected, ("end", made.summary["best_epoch"], "None")]
    assert records == made.progress


def test_who_has_begun_is_told_of_the_error() -> None:
    first, second = Noting(), Noting(fails=True)
    with pytest.raises(RuntimeError, match="enough"):
        fit(first, second)
    for noting in (first, second):
        assert noting.told[0][0] == "start" and noting.told[-1] == ("end", None, "RuntimeError('enough')")
    with pytest.raises(InputError, match=r"instances of any2vec\.Callback, got 'mlflow'"):
        any2vec.fit(MODEL, ROWS, callbacks=["mlflow"])  # type: ignore[list-item]


class Ending(any2vec.Callback):
    """Fails at the end."""

    def on_end(self, summary: Mapping[str, Any] | None, error: BaseException | None) -> None:
        raise OSError("no place for the last figures")


def test_all_are_told_of_the_end_though_one_fails_at_it(tmp_path: Path) -> None:
    first, last = Noting(), Noting()
    with pytest.raises(OSError, match="no place"):
        fit(first, Ending(), last, out=tmp_path / "run")
    assert first.told[-1] == last.told[-1] == ("end", first.told[-1][1], "None")
    assert (tmp_path / "run" / "meta.json").is_file()


def test_the_error_of_the_run_stays_though_a_callback_fails_at_the_end() -> None:
    last = Noting(fails=True)
    with pytest.raises(RuntimeError, match="enough") as raised:
        fit(Ending(), Ending(), last)
    assert last.told[-1] == ("end", None, "RuntimeError('enough')")
    said = "Ending.on_end failed, too: OSError: no place for the last figures"
    assert raised.value.__notes__ == [said, said]


@pytest.mark.parametrize("place", ["run", "run/events", "run/../run/events"])
def test_a_folder_in_that_of_the_run_is_refused(place: str, tmp_path: Path) -> None:
    """The run would find its own folder taken."""
    noting = Noting()
    noting.folder = tmp_path / place
    with pytest.raises(InputError, match=r"Noting writes into .*, which the run in .*run replaces; choose another"):
        fit(noting, out=tmp_path / "run")
    assert not noting.told and not list(tmp_path.iterdir())
    noting.folder = tmp_path / "runs"
    fit(noting, out=tmp_path / "run")


def test_a_line_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    fit(progress=True)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3 and "epoch 3/3  100 %" in said[-1] and "mrr" in said[-1] and "left" in said[0]


def test_lines_that_stay_are_so_far_apart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("any2vec.callbacks.progress_line.time.monotonic", lambda: clock[0])
    line = ProgressLine()
    for clock[0] in (LINE_SECONDS - 1, LINE_SECONDS, LINE_SECONDS + 1, 2 * LINE_SECONDS):
        line.on_record(
            any2vec.Progress(
                seconds=1, epoch=0, epochs=1, round=0, progress=clock[0] / 100, loss=None, learning_rate=0.1, items=1,
                items_per_s=1, busy_cores=1, rss_bytes=1, mapped_bytes=1,
            )
        )  # fmt: skip
    said = capsys.readouterr().err.splitlines()
    parts = [one.split("  ") for one in said]
    assert [(one[1], one[-1]) for one in parts] == [("15 %", "5.7 s left"), ("30 %", "2.3 s left")]


@pytest.mark.parametrize("kind", ["TensorBoard", "MLflow", "WeightsAndBiases"])
def test_what_is_not_installed_is_refused_with_the_line_to_type(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(trackers, "import_module", absent)
    with pytest.raises(InputError, match=r"is not installed; in a clone: pip install -e '.\[\w+\]'"):
        getattr(any2vec, kind)("somewhere")


@pytest.mark.parametrize(
    ("kind", "module"), [("TensorBoard", "tensorboardX"), ("MLflow", "mlflow"), ("WeightsAndBiases", "wandb")]
)
def test_trackers_write_files(kind: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():  # of theirs
        warnings.simplefilter("ignore")
        pytest.importorskip(module, reason=f"{kind} needs {module}", exc_type=ImportError)
        fit(getattr(any2vec, kind)(tmp_path / "kept"))
    written = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    whole = b"".join(path.read_bytes() + path.name.encode() for path in written)
    assert b"validation" in whole and b"mrr" in whole and b"distmult" in whole
    assert not [path for path in tmp_path.iterdir() if path.name != "kept"]
