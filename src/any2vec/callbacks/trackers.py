"""Callbacks that write runs for other programs to show. They write files alone, and need no account and no server."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from any2vec.callbacks.base import Callback
from any2vec.errors import InputError
from any2vec.types import Progress

_OF_SUMMARY = ("loss", "train_seconds", "seconds", "items_per_s", "peak_rss_bytes", "best_epoch", "epochs_done")


def _library(name: str, extra: str) -> Any:
    """A module that is imported when it is first needed. InputError: it is not installed; extra: that brings it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"This callback needs {name}, which is not installed; in a clone: pip install -e '.[{extra}]'."
        ) from error


def _scalars(record: Progress) -> dict[str, float]:
    """The numbers of a record that curves are drawn of, by name; those of validation are told apart."""
    names = ("loss", "learning_rate", "items_per_s", "rss_bytes", "epoch", "progress")
    found = ((name, getattr(record, name)) for name in names)
    return {name: float(value) for name, value in found if value is not None}


def _figures(summary: Mapping[str, Any] | None) -> dict[str, float]:
    found = {name: (summary or {}).get(name) for name in _OF_SUMMARY}
    return {f"final_{name}": float(value) for name, value in found.items() if isinstance(value, int | float)}


class TensorBoard(Callback):
    """Writes event files; `tensorboard --logdir FOLDER` shows them.

    Steps are items (words, triples, examples) for records, epochs for validation. Needs the extra `tensorboard`
    (tensorboardX).

    Args:
        folder: where the events of this run go; it is made.

    Raises:
        InputError: tensorboardX is not installed.

    Example:
        any2vec.fit("deepfm", table, schema=schema, callbacks=[any2vec.TensorBoard("runs/events")])
    """

    folder: Path

    def __init__(self, folder: str | Path) -> None:
        self._module = _library("tensorboardX", "tensorboard")
        self.folder = Path(folder)
        self._writer: Any = None

    def on_start(self, settings: Mapping[str, Any]) -> None:
        self._writer = self._module.SummaryWriter(str(self.folder))
        self._writer.add_text("settings", "\n".join(f"    {name}: {value}" for name, value in settings.items()))

    def on_record(self, record: Progress) -> None:
        for name, value in _scalars(record).items():
            self._writer.add_scalar(f"training/{name}", value, record.items)

    def on_validation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(f"validation/{name}", value, epoch)

    def on_end(self, summary: Mapping[str, Any] | None, error: BaseException | None) -> None:
        for name, value in _figures(summary).items():
            self._writer.add_scalar(name, value, 0)
        self._writer.close()


class MLflow(Callback):
    """Writes a run into an SQLite file of MLflow; `mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db` shows it.

    Steps are items for records, epochs for validation. Needs the extra `mlflow`.

    Args:
        folder: of the file, mlflow.db; it is made. experiment: name of the experiment in it.

    Raises:
        InputError: MLflow is not installed.
    """

    folder: Path

    def __init__(self, folder: str | Path = "mlruns", experiment: str = "any2vec") -> None:
        self._module = _library("mlflow", "mlflow")
        self.folder, self.experiment = Path(folder), experiment
        self._client: Any = None
        self._run = ""

    def on_start(self, settings: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = self.folder.resolve()
        self._client = self._module.MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
        known = self._client.get_experiment_by_name(self.experiment)
        number = _made(self._client, self.experiment, folder) if known is None else known.experiment_id
        self._run = self._client.create_run(number).info.run_id
        for name, value in settings.items():
            self._client.log_param(self._run, name, value)

    def on_record(self, record: Progress) -> None:
        self._log(_scalars(record), record.items)

    def on_validation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self._log({f"validation_{name}": value for name, value in metrics.items()}, epoch)

    def on_end(self, summary: Mapping[str, Any] | None, error: BaseException | None) -> None:
        self._log(_figures(summary), 0)
        self._client.set_terminated(self._run, "FINISHED" if error is None else "FAILED")

    def _log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=step)


def _made(client: Any, experiment: str, folder: Path) -> str:
    """Number of a new experiment, whose artifacts lie beside the file."""
    return str(client.create_experiment(experiment, artifact_location=(folder / "artifacts").as_uri()))


class WeightsAndBiases(Callback):
    """Writes an offline run of Weights & Biases; `wandb sync FOLDER/wandb/offline-run-...` uploads it when you like.

    Needs the extra `wandb`.

    Args:
        folder: where its folder `wandb` goes; it is made. project: name of the project.

    Raises:
        InputError: wandb is not installed.
    """

    folder: Path

    def __init__(self, folder: str | Path = ".", project: str = "any2vec") -> None:
        self._module = _library("wandb", "wandb")
        self.folder, self.project = Path(folder), project
        self._run: Any = None

    def on_start(self, settings: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._run = self._module.init(
            project=self.project, dir=str(self.folder), mode="offline", config=dict(settings),
            settings={"silent": True, "x_disable_meta": True},
        )  # fmt: skip

    def on_record(self, record: Progress) -> None:
        self._run.log({"items": record.items, **{f"training/{name}": one for name, one in _scalars(record).items()}})

    def on_validation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self._run.log({f"validation/{name}": value for name, value in metrics.items()} | {"validation/epoch": epoch})

    def on_end(self, summary: Mapping[str, Any] | None, error: BaseException | None) -> None:
        self._run.summary.update(_figures(summary))
        self._run.finish(exit_code=0 if error is None else 1)
