"""Words and nodes whose rows lie on all hosts and are trained through caches: what is learned, bytes, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.errors import InputError, Interrupted
from click_runs import stop_at
from spreads import spread

MODEL = any2vec.SkipGram(dim=16, window=3, min_count=1)
TOPICS, WORDS = 20, 20


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of one topic each."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("text") / "text.txt"
    topics = rng.integers(0, TOPICS, 3000)
    path.write_text("\n".join(" ".join(f"t{topic}w{word}" for word in rng.integers(0, WORDS, 12)) for topic in topics))
    return path


def fit(text: Path, hosts: int = 2, **options: Any) -> Any:
    reported = {"cache": "het:4", "rounds_per_epoch": 20, "epochs": 3, "threads": 1, "logical_hosts": hosts} | options
    return any2vec.fit(MODEL, text, **spread(**reported))


def test_one_host_without_staleness_is_the_plain_run(text: Path) -> None:
    """But for the rounding of changes, through a cache of a tenth of the rows."""
    plain = any2vec.fit(MODEL, text, epochs=3, threads=1)
    cached = fit(text, 1, cache="het:0:lru")
    np.testing.assert_allclose(cached.embeddings.vectors, plain.embeddings.vectors, rtol=1e-3, atol=1e-3)
    assert abs(cached.summary["loss"] - plain.summary["loss"]) < 1e-3


def test_hosts_learn_from_one_another_and_stale_rows_save_bytes(text: Path) -> None:
    """Of the bytes of rows that stay away: those that are read within the bound."""
    plain = any2vec.fit(MODEL, text, epochs=3, threads=1).summary["loss"]
    found = {bound: fit(text, cache=f"het:{bound}", cache_rows=1.0).summary for bound in (0, 4, 30)}
    assert all(abs(found[bound]["loss"] - plain) < 0.1 for bound in (0, 4))
    rows = {bound: summary["bytes_by_kind"]["rows"] for bound, summary in found.items()}
    assert rows[30] < 0.8 * rows[4] <= 0.8 * rows[0], rows
    assert found[4]["cache"] == "het:4" and found[4]["rounds"] == 60


@pytest.mark.parametrize("policy", ["static", "lru", "tinylfu", "fifo", "belady", "ttl"])
def test_every_policy_trains_every_word_once(policy: str, text: Path) -> None:
    result = fit(text, 3, cache=f"het:2:{policy}")
    assert result.summary["items"] == 3 * 3000 * 12 and np.isfinite(result.embeddings.vectors).all()


def test_nodes_are_trained_likewise(tmp_path: Path) -> None:
    ring = tmp_path / "ring.txt"
    ring.write_text("".join(f"{node} {(node + step) % 60}\n" for node in range(60) for step in (1, 2)))
    result = any2vec.fit(
        any2vec.DeepWalk(dim=8), ring, threads=1, **spread(logical_hosts=2, cache="het:4", rounds_per_epoch=5)
    )
    assert np.isfinite(result.embeddings.vectors).all() and result.summary["hosts"] == 2


@pytest.mark.parametrize("policy", ["static", "belady"])
def test_a_run_goes_on_from_its_checkpoint(policy: str, text: Path, tmp_path: Path) -> None:
    out, options = tmp_path / "out", {"cache": f"het:0:{policy}"}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted, match="holds the work so far"):
        stop_at(0.4, patch)
        fit(text, 1, out=out, **options)
    went_on = fit(text, 1, out=out, resume=True, **options)
    apart = np.abs(went_on.embeddings.vectors - fit(text, 1, **options).embeddings.vectors)
    assert apart.max() < 1e-3 and went_on.summary["items"] == 3 * 3000 * 12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cache": "bagpipe:5"}, "cache bagpipe:5 needs the gradients of each step"),
        ({"sync": "adasum"}, "sync is for hosts that hold all rows and merge them"),
        ({"scheme": "rep-opt"}, "scheme is for hosts that hold all rows and merge them"),
        ({"cache": "none", "cache_rows": 0.5}, "cache_rows is for cache het or age"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], said: str, text: Path) -> None:
    with pytest.raises(InputError, match=said):
        fit(text, **options)


def test_parts_of_a_graph_have_no_cache(tmp_path: Path) -> None:
    ring = tmp_path / "ring.txt"
    ring.write_text("".join(f"{node} {(node + 1) % 60}\n" for node in range(60)))
    with pytest.raises(InputError, match="partition does not go with cache het:4"):
        any2vec.fit(any2vec.DeepWalk(), ring, **spread(logical_hosts=2, cache="het:4", partition="hash"))
