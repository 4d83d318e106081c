"""Hosts agree on the curvature of a round: the twin's, the same bits everywhere, few bytes; who has none is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import any2vec
from agreeing import pair_steps as even_steps
from agreeing import start_tables
from any2vec import CBOW, ComplEx, InputError, SkipGram
from any2vec.cluster.codec import pack_rows, unpack_rows
from any2vec.cluster.message import Part, size_of
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.models.words.pair_steps import pair_steps
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.base.curvature import Curvature, Curvatures
from any2vec.sync.base.pool import ThreadPool
from any2vec.sync.rules.block import Block, Rules
from any2vec.sync.rules.merges import Spectral, Sum
from any2vec.tables.copying import num_rows_of, stripes
from naive.rows.spectral import moment
from spreads import spread

SENTENCES = [[str(word) for word in np.random.default_rng(k).integers(0, 12, 9)] for k in range(80)]


class Heard(Spectral):
    """Keeps what it is told."""

    told: Curvature

    def prepare(self, curvature: Curvature) -> None:
        self.told = curvature


def heard(hosts: int, rule: type[Sum] | type[Spectral] = Heard) -> list[tuple[dict[str, Any], int]]:
    """By rank: what the rules of both tables were told in round 3, and bytes sent."""
    tables = start_tables()
    tables["input"][:5] *= 3

    def host(transport: Transport) -> tuple[dict[str, Any], int]:
        cut = stripes(num_rows_of(tables), hosts)
        owned = {name: where.ids(transport.rank) for name, where in cut.items()}
        blocks = {name: Rules(rule).block(name, tables[name][ids], ids) for name, ids in owned.items()}
        Curvatures(transport, lambda: even_steps(len(tables["input"]) - 2), blocks, cut, ThreadPool(2)).prepare(3)
        sent = transport.counters.bytes_by_phase().get("curvature", 0)
        return {name: getattr(block.rule, "told", None) for name, block in blocks.items()}, sent

    return run_logical(hosts, host, patience=30)


@pytest.mark.parametrize(("hosts", "piece"), [(1, 1024), (1, 4), (2, 1024), (2, 5), (4, 1024), (9, 1024)])
def test_all_hosts_hear_of_the_twins_curvature(hosts: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.sync.base.curvature.PIECE", piece)
    tables, found = start_tables(), heard(hosts)
    tables["input"][:5] *= 3
    known = len(tables["input"]) - 2
    for name, other in (("input", "output"), ("output", "input")):
        expected = moment(tables[other][:known], [1 / known] * known)
        steps = np.concatenate([told[name].step_B for told, _ in found])
        assert sorted(steps)[:2] == [0, 0]  # of rows beyond those that are counted
        np.testing.assert_allclose(sorted(steps)[2:], np.linspace(1, 100, known) / 4)
        for told, _ in found:
            value_D, vector_DD = told[name].value_D, told[name].vector_DD
            np.testing.assert_allclose((vector_DD * value_D) @ vector_DD.T, expected, rtol=1e-5, atol=1e-5)
            assert np.array_equal(value_D, found[0][0][name].value_D)
            assert np.array_equal(vector_DD, found[0][0][name].vector_DD)


def test_a_curvature_costs_two_triangles_of_float32() -> None:
    hosts, numbers = 4, 2 * 6  # the triangles of two tables of 3 columns
    cuts = contiguous_bounds(numbers, hosts)
    for rank, (_, sent) in enumerate(heard(hosts)):
        own = cuts[rank + 1] - cuts[rank]
        arrays = [np.empty(cuts[peer + 1] - cuts[peer], np.float32) for peer in range(hosts) if peer != rank]
        arrays += [np.empty(own, np.float32)] * (hosts - 1)
        assert sent == sum(size_of([Part("dense", array)]) for array in arrays)
    assert [sent for _, sent in heard(hosts, Sum)] == [0] * hosts


def test_steps_of_pairs() -> None:
    """Three words, of which subsampling keeps all, all and half; 2 rounds, 3 epochs."""
    model = SkipGram(window=3, num_negatives=2, learning_rate=0.5, min_learning_rate=0.2)
    count, keep = np.array([6, 3, 2]), np.array([1.5, 1.0, 0.5])
    steps = pair_steps(model, count, keep, 2, 3)
    assert dict(steps.meets) == {"input": "output", "output": "input"}
    pairs = 10 * 4  # kept items, each with window + 1 others on average
    noise = count**0.75 / (count**0.75).sum()
    np.testing.assert_allclose(steps.weights["input"], [0.6, 0.3, 0.1])
    np.testing.assert_allclose(steps.weights["output"], (np.array([0.6, 0.3, 0.1]) + 2 * noise) / 3)
    np.testing.assert_allclose(steps.updates["input"], pairs * 3 / 2 * np.array([0.6, 0.3, 0.1]))
    np.testing.assert_allclose(steps.updates["output"], pairs / 2 * (np.array([0.6, 0.3, 0.1]) + 2 * noise))
    assert [steps.rate(number) for number in (0, 5)] == pytest.approx([0.475, 0.225])


@pytest.mark.parametrize("bits", [32, 16, 8])
@pytest.mark.parametrize("scheme", ["rep-opt", "pull-opt"])
def test_words_learn(scheme: str, bits: int) -> None:
    options = spread(logical_hosts=3, sync="spectral", scheme=scheme, bits=bits, rounds_per_epoch=4)
    for model in (SkipGram(dim=8, learning_rate=0.1), CBOW(dim=8, learning_rate=0.1)):
        short, long = (any2vec.fit(model, SENTENCES, epochs=epochs, threads=1, **options) for epochs in (1, 8))
        assert long.summary["loss"] < short.summary["loss"] and long.summary["bytes_by_kind"]["dense"] > 0
        # It goes along with rows that are pulled and pushed, and has messages of its own where none are pulled.
        assert ("curvature" in long.summary["bytes_by_phase"]) == (scheme == "rep-opt")


def test_overlap_repeats_its_bits() -> None:
    options = spread(logical_hosts=3, sync="spectral", overlap=True, rounds_per_epoch=4)
    one, other = (any2vec.fit(SkipGram(dim=8), SENTENCES, epochs=3, threads=1, **options) for _ in range(2))
    assert np.array_equal(one.embeddings.vectors, other.embeddings.vectors)


REFUSED = [
    (SkipGram(dim=8, objective="hierarchical"), SENTENCES, "spectral"),
    (ComplEx(dim=8, batch_size=4), [("a", "r", "b"), ("b", "r", "c")] * 10, "spectral"),
    (ComplEx(dim=8, batch_size=4), [("a", "r", "b"), ("b", "r", "c")] * 10, "shadow-spectral"),
]


@pytest.mark.parametrize(("model", "data", "sync"), REFUSED)
def test_where_no_curvature_is_known_the_rule_is_refused(model: Any, data: Any, sync: str) -> None:
    with pytest.raises(InputError, match=r"spectral goes by the curvature .* choose another one"):
        any2vec.fit(model, data, epochs=1, threads=1, **spread(logical_hosts=2, sync=sync))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("is_delta", [False, True])
def test_stretches_of_a_block_are_merged_as_the_whole(
    is_delta: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, and nothing as long as the block is left behind."""
    rng, size, dim = np.random.default_rng(0), 501, 6
    rows = rng.normal(size=(size, dim)).astype(np.float32)
    slots = [np.flatnonzero(rng.random(size) < share) for share in (0.5, 0.6, 0.0, 0.5)]
    steps = [(found, rng.normal(size=(len(found), dim)).astype(np.float32)) for found in slots]
    changes = [(found, step if is_delta else rows[found] + step) for found, step in steps]
    turned, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    curvature = Curvature(np.sort(rng.random(dim)), turned, 50 * rng.random(size))
    whole, parts = Block(rows, Spectral()), Block(rows, Spectral())
    for block in (whole, parts):
        block.rule.prepare(curvature)  # type: ignore[attr-defined]
    for found, values in changes:
        whole.merge(found, values, is_delta)
    changed = whole.finish(is_delta)
    monkeypatch.setattr("any2vec.sync.rules.block.STRETCH_BYTES", 16 * dim * 5)
    assert (parts.merge_all(changes, is_delta, ThreadPool(threads)) == changed).all()
    assert (parts.rows == whole.rows).all() and parts._merging is None


@pytest.mark.parametrize("bits", [8, 16])
def test_rounded_changes_are_merged_as_what_they_stand_for(bits: int) -> None:
    """To the bit, beside a host's own, which are not rounded, and one's that has none."""
    rng, size, dim = np.random.default_rng(1), 90, 6
    rows = rng.normal(size=(size, dim)).astype(np.float32)
    slots = [np.flatnonzero(rng.random(size) < share) for share in (0.5, 0.6, 0.0, 0.5)]
    packed = [
        pack_rows(rng.normal(size=(len(found), dim)).astype(np.float32), 32 if host == 1 else bits)
        for host, found in enumerate(slots)
    ]
    turned, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    curvature = Curvature(np.sort(rng.random(dim)), turned, 50 * rng.random(size))
    one, other = Block(rows, Spectral()), Block(rows, Spectral())
    for block in (one, other):
        block.rule.prepare(curvature)  # type: ignore[attr-defined]
    changed = one.merge_packed(list(zip(slots, packed, strict=True)), True, ThreadPool(2))
    values = [unpack_rows(parts) for parts in packed]
    assert (other.merge_all(list(zip(slots, values, strict=True)), True, ThreadPool(1)) == changed).all()
    assert (one.rows == other.rows).all() and (one.rows[changed] != rows[changed]).any()
