"""ConvE from a package outside src: a score that autograd differentiates."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stranger_packages import STRANGERS
from stranger_scores import check_differences, check_learned, check_resumed, package_of

import any2vec
import needs_torch  # noqa: F401


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package, and files of triples."""
    yield from package_of("conve", "ConvE", tmp_path_factory.mktemp("site"))


def model(**options: Any) -> Any:
    return import_module("conve").ConvE(**options)


def test_it_is_short() -> None:
    assert len((STRANGERS / "conve.py").read_text().splitlines()) < 120


def test_it_learns_planted_triples(package: Path) -> None:
    options: dict[str, Any] = {"dim": 32, "filters": 4, "batch_size": 250, "learning_rate": 0.1}
    check_learned(any2vec.fit(model(**options), package / "train.tsv", epochs=10, threads=1), package, 0.2)


def test_its_gradients_are_its_differences(package: Path) -> None:
    conve = model(dim=12, filters=2)
    shapes = {name: array.shape for name, array in conve.start_dense(np.random.default_rng(1)).items()}
    check_differences(conve.make_score(), shapes, 12, 12)


def test_who_goes_on_ends_as_if_never_stopped(package: Path, tmp_path: Path) -> None:
    check_resumed(model(dim=12, filters=2, batch_size=500), package, tmp_path)
