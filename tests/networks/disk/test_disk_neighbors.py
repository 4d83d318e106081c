"""Lists of neighbors on disk: samples are those of lists in memory, and only pages with drawn places are read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.data.attributed.adjacency_file import AdjacencyFile
from any2vec.data.attributed.row_file import Reads
from any2vec.data.graph.reader import read_graph
from any2vec.data.io.array_file import HEADER_BYTES, ArrayFile
from any2vec.data.io.direct import PAGE
from any2vec.data.options import GraphOptions
from any2vec.errors import FormatError, InputError, StorageError
from any2vec.kernels.graph.neighbors import UNIFORM, count_samples, draw_places, sample_hop
from any2vec.sampling.disk_neighbors import CachedLists, DiskNeighborSampler
from any2vec.sampling.neighbors import Neighborhood, NeighborOptions, NeighborSampler
from any2vec.types import Csr
from marks import uint64_wraps

pytestmark = uint64_wraps
NODES = 2000


def hubs_csr() -> Csr:
    """Directed: node 0 has 1,500 neighbors, some nodes have none."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, NODES, 30_000), (NODES * rng.random(30_000) ** 2).astype(int)
    hub = rng.choice(NODES, 1500, replace=False)
    edges = np.concatenate([src, hub]), np.concatenate([dst, np.zeros(1500, int)])
    return read_graph(edges, GraphOptions(directed=True)).csr


def stored(folder: Path, csr: Csr) -> AdjacencyFile:
    file = ArrayFile(folder / "indices.npy", np.int32)
    file.append(csr.indices)
    file.close()
    return AdjacencyFile(folder / "indices.npy", len(csr.indices), len(csr.indptr) - 1)


def assert_same(got: Neighborhood, expected: Neighborhood) -> None:
    for name, mine, other in zip(expected._fields[:-1], got, expected, strict=False):  # not what was read
        assert np.array_equal(mine, other) and np.asarray(mine).dtype == np.asarray(other).dtype, name


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanouts", [(5, 3), (1,), (-1, 4), (70, 2, -1)])
@pytest.mark.parametrize("num_kept", [0, 300, NODES])
def test_samples_are_those_in_memory(tmp_path: Path, fanouts: tuple[int, ...], replace: bool, num_kept: int) -> None:
    csr, rng = hubs_csr(), np.random.default_rng(5)
    for key in ("epoch", "batch"):
        options = NeighborOptions(fanouts=fanouts, replace=replace, key=key, seed=7)  # type: ignore[arg-type]
        kept = np.sort(rng.choice(NODES, num_kept, replace=False))
        lists = CachedLists(csr, stored(tmp_path, csr), kept)
        plain, disk = NeighborSampler(csr, options), DiskNeighborSampler(csr.indptr, lists, options)
        batches = [np.append(rng.permutation(np.arange(1, NODES))[:60], 0) for _ in range(4)]
        for number, seeds in enumerate(batches):
            got = disk.sample(seeds, 2, number, with_edges=True)
            assert_same(got, plain.sample(seeds, 2, number, with_edges=True))
            assert (got.reads == Reads()) == (num_kept == NODES)
        assert_same(disk.sample(batches[0]), plain.sample(batches[0]))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda seeds: disk.sample(seeds, 1), batches * 3))  # noqa: B023
        for got, seeds in zip(found, batches * 3, strict=True):
            assert_same(got, plain.sample(seeds, 1))
        lists.file.close()


def test_hops_that_find_no_node_are_followed_by_others(tmp_path: Path) -> None:
    """0 and 1 are neighbors, 3 is that of 2, and 3 and 4 have none."""
    csr = Csr(np.array([0, 1, 2, 3, 3, 3]), np.array([1, 0, 3], np.int32), np.empty(0, np.float32))
    options = NeighborOptions(fanouts=(2, 2, 2, 2))
    lists = CachedLists(csr, stored(tmp_path, csr), np.empty(0, np.int64))
    plain, disk = NeighborSampler(csr, options), DiskNeighborSampler(csr.indptr, lists, options)
    for seeds in ([4], [0, 1], [2], [3, 4], [0, 2, 4]):
        assert_same(disk.sample(np.array(seeds), with_edges=True), plain.sample(np.array(seeds), with_edges=True))


def plain_places(csr: Csr, nodes: np.ndarray, fanout: int, repeats: bool, key: np.uint64) -> np.ndarray:
    """What the kernel that reads entries takes."""
    start_F, degree_F, stop_F1 = *np.empty((2, len(nodes)), np.int64), np.zeros(len(nodes) + 1, np.int64)
    total, widest = count_samples(csr.indptr, nodes, fanout, repeats, start_F, degree_F, stop_F1)
    edge_S, own_S = np.empty(total, np.int64), np.empty(total, np.int64)
    sample_hop(
        csr.indices, np.empty(0, np.uint32), np.empty(0, np.int32), np.empty(0, np.float32), nodes, start_F, degree_F,
        stop_F1, UNIFORM, repeats and fanout >= 0, key, 1, np.zeros(NODES, np.int32), np.empty(NODES + 1, np.int32), 0,
        np.empty(max(2048, widest), np.int64), np.empty(total, np.int32), edge_S,
    )  # fmt: skip
    draw_places(nodes, start_F, degree_F, stop_F1, repeats and fanout >= 0, key, own_S)
    assert np.array_equal(own_S, edge_S)
    return own_S


@pytest.mark.parametrize("repeats", [False, True])
def test_places_are_drawn_without_their_entries(repeats: bool) -> None:
    csr, nodes = hubs_csr(), np.arange(NODES, dtype=np.int32)
    found = [plain_places(csr, nodes, fanout, repeats, np.uint64(9)) for fanout in (1, 8, 64, 300, -1)]
    assert np.array_equal(found[-1], np.arange(len(csr.indices)))


def test_a_hub_costs_pages_of_its_sample(tmp_path: Path) -> None:
    """A list of 40 pages: one place is one page; all are 41, for it begins behind a header."""
    entries = 40 * PAGE // 4
    csr = Csr(np.array([0, entries] + [entries] * (entries - 1)), np.arange(entries, dtype=np.int32), np.empty(0))
    lists = CachedLists(csr, stored(tmp_path, csr), np.empty(0, np.int64))
    for fanout, least, most in ((1, 1, 1), (5, 2, 5), (-1, 41, 41)):
        sampler = DiskNeighborSampler(csr.indptr, lists, NeighborOptions(fanouts=(fanout,)))
        reads = sampler.sample(np.array([0, 3])).reads
        last = (PAGE * 40 + HEADER_BYTES) % PAGE  # the file ends within its last page
        assert reads.missed == 1
        assert least * PAGE - (PAGE - last) <= reads.bytes_read <= most * PAGE


def test_entries_in_any_order_and_pages_once(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, 90_000, 100_000).astype(np.int32)
    csr = Csr(np.array([0, 100_000]), ids, np.empty(0))
    file = AdjacencyFile(stored(tmp_path, csr).path, 100_000, 90_000)
    rng = np.random.default_rng(1)
    for size in (1, 7, 3000, 100_000):
        places = rng.integers(0, 100_000, size)
        found, num_bytes = file.take(places)
        assert np.array_equal(found, ids[places])
        pages = len(np.unique((HEADER_BYTES + 4 * places) // PAGE))
        assert (pages - 1) * PAGE < num_bytes <= pages * PAGE
    assert file.take(np.empty(0, np.int64))[1] == 0


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    csr = hubs_csr()
    file = stored(tmp_path, csr)
    lists = CachedLists(csr, file, np.empty(0, np.int64))
    sampler, plain = (
        DiskNeighborSampler(csr.indptr, lists, NeighborOptions(fanouts=(-1,))),
        NeighborSampler(csr, NeighborOptions(fanouts=(-1,))),
    )
    with (tmp_path / "indices.npy").open("r+b") as raw:
        raw.truncate(PAGE)
    seeds = np.arange(NODES)
    with pytest.raises(FormatError, match=r"indices\.npy is cut: it ends before byte"):
        sampler.sample(seeds)
    stored(tmp_path, csr)  # the same file, whole again
    assert_same(sampler.sample(seeds), plain.sample(seeds))  # what a failed sample had found is forgotten
    with (tmp_path / "indices.npy").open("r+b") as raw:
        raw.seek(HEADER_BYTES + 4 * 700)
        raw.write(np.int32(NODES).tobytes())
    with pytest.raises(FormatError, match=r"indices\.npy is damaged \(edges lead outside the nodes"):
        sampler.sample(seeds)
    with pytest.raises(StorageError, match="gone"):
        AdjacencyFile(tmp_path / "gone.npy", 1, 1)


@pytest.mark.parametrize("law", ["labor", "weighted"])
def test_laws_that_look_at_whole_lists_are_refused(tmp_path: Path, law: Any) -> None:
    csr = hubs_csr()
    lists = CachedLists(csr, stored(tmp_path, csr), np.empty(0, np.int64))
    with pytest.raises(InputError, match=f"by the law uniform, got {law}"):
        DiskNeighborSampler(csr.indptr, lists, NeighborOptions(fanouts=(2,), law=law))
    with pytest.raises(InputError, match="comes twice"):
        DiskNeighborSampler(csr.indptr, lists, NeighborOptions(fanouts=(2,))).sample(np.array([1, 1]))
