"""What every task keeps to: a class to inherit, with a small model of it and data that train in a second."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from any2vec.embeddings import Embeddings
from any2vec.errors import InputError, Interrupted
from any2vec.options.hosts import HostOptions
from any2vec.options.run import RunOptions
from any2vec.train import progress
from any2vec.train.fit import FitResult, train
from any2vec.train.in_memory import program
from any2vec.train.registry import task_of
from any2vec.train.spec import Hooks, RunSpec
from any2vec.train.task import CLASSES
from any2vec.types import Progress


class TaskTests(ABC):
    """Runs that end, with rows in memory, one training thread on each host."""

    most_hosts: ClassVar[int] = 2
    """1: not spread"""

    @abstractmethod
    def model(self) -> Any:
        """The config of a small model."""

    @abstractmethod
    def data(self, folder: Path) -> str:
        """A file of data, written into the folder; an epoch of them has several works."""

    def reading(self) -> dict[str, Any]:
        """Options of reading, by their kind."""
        return {}

    def options(self, hosts: int) -> dict[str, Any]:
        """Groups of options (sync, storage) of a run on so many hosts."""
        return {}

    def state(self, result: FitResult) -> dict[str, np.ndarray]:
        """What a run has learned."""
        found = {"vectors": result.embeddings.vectors}
        return found if result.embeddings.output is None else found | {"output": result.embeddings.output}

    def spec(self, folder: Path, hosts: int = 1, **run: Any) -> RunSpec:
        model = self.model()
        return RunSpec(
            task=task_of(model).name, model=model, data=self.data(folder), reading=self.reading(),
            run=RunOptions(**{"epochs": 2, "threads": 1, "checkpoint_seconds": 1e-9} | run),
            hosts=HostOptions(logical_hosts=hosts) if hosts > 1 else HostOptions(), **self.options(hosts),
        )  # fmt: skip

    def train(self, folder: Path, hosts: int = 1, hooks: Hooks | None = None, **run: Any) -> FitResult:
        return train(self.spec(folder, hosts, **run), hooks or Hooks(), 0.0)

    @pytest.fixture(autouse=True)
    def short_works(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A work is one piece, and each makes a record."""
        monkeypatch.setattr(program, "WORK_SECONDS", 0.0)
        monkeypatch.setattr(progress, "RECORD_SECONDS", 0.0)

    def test_it_is_registered(self) -> None:
        model = self.model()
        task = task_of(model)
        assert isinstance(model, task.model_class(model.name)) and task.model_from(model.as_dict()) == model
        assert task.about_model(model.name) and task.nouns(model).rows and task.nouns(model).items

    def test_its_options_exist(self) -> None:
        task = task_of(self.model())
        own = {name for names in task.options_of(self.model().name).values() for name in names}
        known = {item.name for options in (*CLASSES.values(), task.run_class()) for item in fields(options)}
        assert own <= known and task.lacks.keys() <= known and not own & task.lacks.keys()

    def test_a_run_is_described_by_json(self, tmp_path: Path) -> None:
        text = self.spec(tmp_path).to_json()
        assert RunSpec.from_json(text).to_json() == text

    @pytest.mark.parametrize("hosts", [1, 2])
    def test_the_same_seed_gives_the_same_bits(self, hosts: int, tmp_path: Path) -> None:
        first, again, other = (self.train(tmp_path, self._hosts(hosts), seed=seed) for seed in (1, 1, 2))
        assert self._bits(first) == self._bits(again) != self._bits(other)
        assert len(first.embeddings) == first.summary["rows"] and first.progress[-1].progress == 1.0

    @pytest.mark.parametrize("hosts", [1, 2])
    def test_who_goes_on_ends_as_if_never_stopped(self, hosts: int, tmp_path: Path) -> None:
        hosts, out = self._hosts(hosts), tmp_path / "out"
        asked: list[Progress] = []

        def stop(record: Progress) -> None:
            if record.progress > 0.3 and not asked:  # a second signal does not wait for the work at hand
                asked.append(record)
                signal.raise_signal(signal.SIGINT)

        with pytest.raises(Interrupted):
            self.train(tmp_path, hosts, Hooks(progress=stop), out=out)
        went_on = self.train(tmp_path, hosts, out=out, resume=True)
        whole = self.train(tmp_path, hosts)
        assert self._bits(went_on) == self._bits(whole) and went_on.summary["items"] == whole.summary["items"]

    def test_the_result_is_in_the_folder(self, tmp_path: Path) -> None:
        kept = self.train(tmp_path, out=tmp_path / "out")
        found = Embeddings.load(tmp_path / "out")
        assert list(found.keys) == list(kept.embeddings.keys)
        assert np.array_equal(found.vectors, kept.embeddings.vectors)
        again = self.train(tmp_path, out=tmp_path / "out", resume=True)
        assert again.summary["items"] == kept.summary["items"]

    def test_what_it_lacks_is_refused_with_the_reason(self, tmp_path: Path) -> None:
        task, spec, refused = task_of(self.model()), self.spec(tmp_path), 0
        for group, options in CLASSES.items():
            own = task.options_of(spec.model.name).get(group, ())
            for option in {item.name for item in fields(options)} & _OTHER.keys() - set(own):
                given = replace(spec, **{group: replace(getattr(spec, group), **{option: _OTHER[option]})})
                with pytest.raises(InputError) as error:
                    train(given, Hooks(), 0.0)
                assert task.why_not(spec.model.name, option) in str(error.value)
                refused += 1
        assert refused

    def _hosts(self, hosts: int) -> int:
        if hosts > self.most_hosts:
            pytest.skip("these data and options are for one host")
        return hosts

    def _bits(self, result: FitResult) -> dict[str, bytes]:
        return {name: np.ascontiguousarray(array).tobytes() for name, array in self.state(result).items()}


_OTHER: dict[str, Any] = {
    "memory": "1GB", "bits": 8, "overlap": True, "scheme": "rep-opt", "rounds_per_epoch": 3,
    "cache": "het:4", "dual": "computed", "staleness_bound": 3, "servers": 1, "read": "parts",
}  # fmt: skip
"""option -> a value that is not its default"""
