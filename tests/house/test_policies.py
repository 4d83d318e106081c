"""The page of policies is what the tasks say, and every policy that they take runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
import needs_torch  # noqa: F401 (first: models of clicks are asked, too)
import planted_nodes
from any2vec.data.clicks.schema import ClickReading
from any2vec.options.run import RunOptions
from any2vec.testing.planted_triples import PlantedTriples
from any2vec.train.fit import train
from any2vec.train.registry import task_named
from any2vec.train.spec import Hooks
from click_runs import plant
from policies import cell, matrix, page, spec_of

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
SERVED = [
    (policy, name) for policy, cells in matrix().items() for name, one in cells.items() if one.options is not None
]


def test_the_page_is_current() -> None:
    """Made again by `python tests/programs/policies.py > docs/policies.md`."""
    assert page() == PAGE.read_text(encoding="utf-8")


def test_every_policy_serves_a_task_or_is_refused_with_a_sentence() -> None:
    for policy, cells in matrix().items():
        assert any(one.options is not None for one in cells.values()), policy
        assert all(one.options is not None or len(one.reason) > 10 for one in cells.values())


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Task -> a tiny model, data and how they are read."""
    folder, rng = tmp_path_factory.mktemp("tiny"), np.random.default_rng(1)
    lines = (" ".join(f"w{word}" for word in rng.integers(0, 40, 10)) for _ in range(300))
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    triples = PlantedTriples(entities=60, relations=2, group=10).triples(0, 500)
    (folder / "triples.tsv").write_text("".join(f"e{a}\tr{b}\te{c}\n" for a, b, c in triples.tolist()))
    clicks, nodes = plant(folder, 600, 10), planted_nodes.plant(folder)
    return {
        "words": {"model": any2vec.SkipGram(dim=8, min_count=1), "data": str(folder / "text.txt")},
        "triples": {"model": any2vec.ComplEx(dim=8, batch_size=100), "data": str(folder / "triples.tsv")},
        "clicks": {
            "model": any2vec.DLRM(dim=4, bottom="4", top="4"), "data": str(clicks.train),
            "reading": {"clicks": ClickReading(schema=str(clicks.schema))},
        },
        "layers": {
            "model": any2vec.GAMLP(**planted_nodes.SMALL), "data": str(nodes["edges"]),
            "reading": {"nodes": planted_nodes.options(nodes)},
        },
        "stream": {"model": any2vec.StreamSkipGram(dim=8), "data": str(folder / "text.txt")},
    }  # fmt: skip


@pytest.mark.parametrize(("policy", "name"), SERVED, ids=lambda one: one.replace(" ", "-"))
def test_what_is_served_runs(policy: str, name: str, given: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    task = task_named(name)
    if name in ("clicks", "layers"):
        pytest.importorskip("torch", reason=f"models of {name} need torch")
    options = cell(task, policy).options
    assert options is not None
    if task.command == "stream":
        spec = spec_of(task, options)
        streamed = any2vec.stream(
            given[name]["model"], given[name]["data"], out=tmp_path / "out", hosts=spec.hosts, sync=spec.sync,
            storage=spec.storage,
        )  # fmt: skip
        assert streamed is not None and streamed.summary["words"] == 3000
        return
    run = RunOptions(epochs=2, threads=1, out=tmp_path / "out")
    found = train(spec_of(task, options, run=run, **given[name]), Hooks(), 0.0)
    assert len(found.embeddings) == found.summary["rows"] and found.summary["items"]
    assert found.summary.get("hosts", 1) == options.get("logical_hosts", 1)
