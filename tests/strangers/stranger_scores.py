"""What scores of triples from other packages must show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stranger_packages

import any2vec
from any2vec.errors import Interrupted
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.models.triples.score import Score
from any2vec.testing.planted_triples import PlantedTriples
from click_runs import stop_at

PLANTED = PlantedTriples(entities=400, relations=3, group=10)
NUM_TRAIN, NUM_TEST = 6000, 400


def package_of(module: str, kind: str, folder: Path) -> Iterator[Path]:
    """A package of one score, which this process finds, too; train.tsv and test.tsv beside it."""
    stranger_packages.install(folder, module, {f"any2vec.models.triples:{module}": f"{module}:{kind}"})
    for name, start, stop in (("train", 0, NUM_TRAIN), ("test", NUM_TRAIN, NUM_TRAIN + NUM_TEST)):
        lines = (f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in PLANTED.triples(start, stop).tolist())
        (folder / f"{name}.tsv").write_text("".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        stranger_packages.known_here(folder, patch)
        yield folder
    stranger_packages.forget()


def check_learned(result: any2vec.FitResult, package: Path, share: float) -> None:
    """Of the best rank's mean reciprocal; rows that say nothing have 0.02 of it."""
    found = evaluate_triple_file(result.scorer, package / "test.tsv")
    seen, held = PLANTED.triples(0, NUM_TRAIN), PLANTED.triples(NUM_TRAIN, NUM_TRAIN + NUM_TEST)
    reciprocal_R = 1 / PLANTED.best_ranks(held, np.concatenate([seen, held]))
    best = float(np.mean(reciprocal_R))
    assert share * best < found.mrr < best + 3 * float(np.std(reciprocal_R)) / math.sqrt(len(reciprocal_R))


def check_resumed(model: Any, package: Path, folder: Path) -> None:
    """Who goes on ends as if never stopped."""
    data: Any = package / "train.tsv"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted, match="holds the work so far"):
        stop_at(0.4, patch)
        any2vec.fit(model, data, epochs=2, threads=1, out=folder / "out")
    went_on = any2vec.fit(model, data, epochs=2, threads=1, out=folder / "out", resume=True)
    whole = any2vec.fit(model, data, epochs=2, threads=1)
    assert _bits(went_on) == _bits(whole) and len(_bits(whole)) > 2


def _bits(result: any2vec.FitResult) -> list[bytes]:
    scorer = result.scorer
    arrays = [scorer.vectors, scorer.relation_vectors, *scorer.dense.values()]
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


def check_differences(score: Score, shapes: dict[str, tuple[int, ...]], dim: int, width: int) -> None:
    """Of a weighed sum of scores, in float32: differences of half a hundredth on each side."""
    rng = np.random.default_rng(4)
    rows = [rng.normal(0, 1, shape).astype(np.float32) for shape in ((4, dim), (4, width), (6, dim))]
    dense = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    weight_QK = rng.normal(0, 1, (4, 6)).astype(np.float32)

    def value() -> float:
        return float((score.forward(*rows, dense).astype(np.float64) * weight_QK).sum())

    value()
    found = score.backward(weight_QK)
    pairs = [*zip(rows, found[:3], strict=True), *((dense[name], found.dense[name]) for name in dense)]
    is_smooth = []
    for array, gradient in pairs:
        assert gradient.shape == array.shape
        for place in rng.choice(array.size, min(array.size, 12), replace=False):
            at, kept, ends = np.unravel_index(place, array.shape), array.flat[place], []
            for step in (0.005, -0.005, 0.01, -0.01):
                array[at] = kept + np.float32(step)
                ends.append(value())
            array[at] = kept
            near, far = (ends[0] - ends[1]) / 0.01, (ends[2] - ends[3]) / 0.02
            is_smooth.append(abs(near - far) < 1e-2 * max(1, abs(near)))  # elsewhere a unit turns on or off
            assert not is_smooth[-1] or gradient[at] == pytest.approx(near, rel=2e-2, abs=2e-2)
    assert np.mean(is_smooth) > 0.8
