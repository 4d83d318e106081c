"""One program on one host or many: the same bits whatever the scheme and whatever carries the hosts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import any2vec
from any2vec import errors
from any2vec.cluster.launch import join
from any2vec.cluster.message import overhead
from any2vec.data.graph.reader import read_graph
from any2vec.data.options import GraphOptions
from any2vec.models.words.config import SequenceModel
from any2vec.models.words.learner import SequenceLearner
from any2vec.models.words.source import StoredTokens
from any2vec.plan.choices import PARTITIONS, SCHEMES
from any2vec.plan.order.shares import chunk_bounds, share_rest
from any2vec.plan.sharding import graph as partition
from any2vec.sampling.distributed_walks import DistributedWalker
from any2vec.sampling.walks import Walker
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.tasks.words import metis_process
from any2vec.train import launch
from any2vec.types import ProgressLine, Round, Span, Work
from ended_runs import ended_at_record
from spreads import agreed, spread

SHORT = {"dim": 8, "window": 3, "min_count": 1}
MODELS = {
    "skipgram": any2vec.SkipGram(**SHORT, subsample=1e-2),
    "cbow": any2vec.CBOW(**SHORT, subsample=1e-2),
    "skipgram-classic": any2vec.SkipGram(**SHORT, kernel="classic", subsample=0),
    "cbow-classic": any2vec.CBOW(**SHORT, kernel="classic", subsample=0),
    "skipgram-hierarchical": any2vec.SkipGram(**SHORT, objective="hierarchical", subsample=0),
    "cbow-hierarchical": any2vec.CBOW(**SHORT, objective="hierarchical", subsample=0),
}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
NODES = any2vec.Node2Vec(dim=8, window=3, walks_per_node=4, walk_length=10, p=0.5, q=2.0)


def zipf(num_sentences: int = 400, seed: int = 0) -> list[list[int]]:
    random, weights = np.random.default_rng(seed), 1 / np.arange(1, 301)
    return [
        random.choice(300, size=random.integers(2, 30), p=weights / weights.sum()).tolist()
        for _ in range(num_sentences)
    ]


SENTENCES = zipf()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hosts") / "text.txt"
    path.write_text("".join(" ".join(f"w{word}" for word in sentence) + "\n" for sentence in SENTENCES))
    return path


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random, path = np.random.default_rng(1), tmp_path_factory.mktemp("hosts") / "edges.tsv"
    pairs = {tuple(sorted(pair)) for pair in random.integers(0, 60, (240, 2)).tolist() if pair[0] != pair[1]}
    path.write_text("".join(f"n{a}\tn{b}\n" for a, b in sorted(pairs)))
    return path


def trained(model: SequenceModel, data: Any, options: dict[str, Any] | None = None, **more: Any) -> any2vec.FitResult:
    return any2vec.fit(model, data, epochs=2, threads=1, seed=3, **(options or {}), **more)


def same(one: any2vec.FitResult, other: any2vec.FitResult) -> bool:
    """Bit for bit: input rows, and output rows where there are any."""
    first, second = one.embeddings, other.embeddings
    outputs = (first.output is None and second.output is None) or (first.output == second.output).all()
    return bool((first.vectors == second.vectors).all() and outputs)


@models
def test_one_host_in_six_rounds_is_the_plain_run(model: SequenceModel) -> None:
    plain = trained(model, SENTENCES)
    for scheme in ("rep-opt", "pull-opt"):
        assert same(plain, trained(model, SENTENCES, spread(hosts=1, rounds_per_epoch=6, scheme=scheme)))


@models
def test_all_schemes_give_the_same_bits(model: SequenceModel) -> None:
    found = [
        trained(model, SENTENCES, spread(logical_hosts=4, scheme=scheme, rounds_per_epoch=3)) for scheme in SCHEMES
    ]
    assert all(same(found[0], other) for other in found[1:])
    assert not same(found[0], trained(model, SENTENCES))
    assert len({result.summary["items"] for result in found}) == 1


@pytest.mark.parametrize("sync", ["adasum", "adasum-symmetric", "blend", "mean", "spectral", "sum"])
def test_walks_on_hosts(edges: Path, sync: str) -> None:
    found = [trained(NODES, edges, spread(logical_hosts=3, scheme=scheme, sync=sync)) for scheme in SCHEMES]
    assert all(same(found[0], other) for other in found[1:])
    assert same(trained(NODES, edges), trained(NODES, edges, spread(hosts=1, rounds_per_epoch=5)))


@pytest.mark.parametrize("partition", PARTITIONS)
def test_walkers_that_travel_teach_the_same(edges: Path, partition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph in parts gives the bits of a whole one, and no host walks on another's part."""
    if partition == "metis":
        pytest.importorskip("pymetis")
    options = {"logical_hosts": 3, "rounds_per_epoch": 2}
    plain = trained(NODES, edges, spread(**options))
    monkeypatch.setattr(Walker, "sample", None)  # of a whole graph
    parted = trained(NODES, edges, spread(**options, partition=partition))
    assert same(plain, parted)
    assert parted.summary["bytes_by_phase"]["walk"] > 0 and "walk" not in plain.summary["bytes_by_phase"]
    assert 0 < parted.summary["walk_seconds"] < parted.summary["train_seconds"] and "walk_seconds" not in plain.summary
    assert {name: plain.summary["data"][name] for name in plain.summary["data"]} == parted.summary["data"]


def test_metis_does_not_make_a_process_look_dead(edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds Python's lock for minutes, so hosts that are processes let another process call it."""
    pytest.importorskip("pymetis")
    parted = spread(logical_hosts=2, partition="metis")
    found = trained(NODES, edges, parted)
    monkeypatch.setattr(join, "joined", lambda: True)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(partition, "metis_partition", None)  # what is called here
    assert same(found, trained(NODES, edges, parted))
    with pytest.raises(errors.InputError, match="METIS cannot cut 3 nodes into 4 parts"):
        metis_process.metis_in_process(read_graph([(0, 1), (1, 2)]).csr, 4)


def test_a_host_that_is_stopped_does_not_wait_for_metis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which hears of nothing while it works, so it is killed."""
    begun: list[subprocess.Popen[bytes]] = []

    def begin(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen([command[0], "-c", "import time; time.sleep(20)"], **more))
        return begun[0]

    def stop(*_: Any) -> None:
        raise errors.Interrupted("Stopped by SIGTERM.")

    monkeypatch.setattr(metis_process, "subprocess", SimpleNamespace(**(vars(subprocess) | {"Popen": begin})))
    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(errors.Interrupted):
            metis_process.metis_in_process(read_graph([(0, 1), (1, 2)]).csr, 2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert begun[0].returncode == -signal.SIGKILL


def test_a_run_over_parts_goes_on_with_another_number_of_hosts(edges: Path, tmp_path: Path) -> None:
    """Three hosts stop amid an epoch, two go on: the rest is cut anew, and all walk as often as anyone must."""
    out = tmp_path / "run"

    def stop(progress: any2vec.Progress) -> None:
        if progress.progress >= 0.3:
            raise KeyboardInterrupt

    hosts = {"rounds_per_epoch": 4, "partition": "hash"}
    with pytest.raises((KeyboardInterrupt, errors.Interrupted)):
        trained(NODES, edges, spread(logical_hosts=3, **hosts), out=out, callback=stop, checkpoint_seconds=1e-6)
    assert (out / "checkpoint.safetensors").exists()
    found = trained(NODES, edges, spread(logical_hosts=2, **hosts), out=out, resume=True)
    whole = trained(NODES, edges, spread(logical_hosts=3, **hosts))
    assert found.summary["items"] == whole.summary["items"]


def test_a_finished_run_over_parts_is_not_walked_again(
    edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finished it, and however many hosts ask; other settings are refused before any walk, too."""
    first, out = spread(logical_hosts=3, partition="hash"), {name: tmp_path / name for name in ("parted", "whole")}
    done = trained(NODES, edges, first, out=out["parted"])
    trained(NODES, edges, spread(logical_hosts=3), out=out["whole"])
    monkeypatch.setattr(DistributedWalker, "sample", None)
    for folder in out.values():
        for hosts in (2, 3):
            again = trained(NODES, edges, spread(logical_hosts=hosts, partition="hash"), out=folder, resume=True)
            assert same(done, again)
    with pytest.raises(errors.InputError, match=r"of a run with model\.q"):
        trained(replace(NODES, q=4.0), edges, first, out=out["parted"], resume=True)
    monkeypatch.undo()
    assert same(done, trained(NODES, edges, spread(logical_hosts=3), out=out["parted"], resume=True))


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (
            MODELS["skipgram"],
            {"logical_hosts": 2, "partition": "hash"},
            r"skipgram has no --partition \(partition\): it reads text, and partition is for graphs",
        ),
        (NODES, {"partition": "hash"}, "--partition .* is for several hosts; say how many"),
        (
            NODES,
            {"logical_hosts": 2, "partition": "hash", "sync": "server:async"},
            "does not go with sync server:async",
        ),
        (NODES, {"logical_hosts": 2, "partition": "hash", "overlap": True}, "does not go with overlap"),
        (NODES, {"logical_hosts": 2, "partition": "cards"}, "partition must be one of"),
    ],
)
def test_where_no_graph_can_be_cut(model: SequenceModel, options: dict[str, Any], said: str, edges: Path) -> None:
    with pytest.raises(errors.InputError, match=said):
        trained(model, edges, spread(**options))


def test_bad_input_of_a_host_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    poor, starts, start = tmp_path / "poor.txt", [], launch._start
    poor.write_text("word word word word word word\n")
    monkeypatch.setattr(launch, "_start", lambda *job: (starts.append(1), start(*job)))
    with pytest.raises(errors.HostError, match=r"Rank \d failed: Only 1 of 1 distinct items") as caught:
        trained(MODELS["skipgram"], poor, spread(hosts=2, restarts=2), out=tmp_path / "out")
    assert starts == [1] and caught.value.is_lasting


@pytest.mark.parametrize("bits", [16, 8])
def test_fewer_bits_are_near_and_deterministic(bits: int) -> None:
    """Rounded changes with error feedback: near the exact run (nearer with 16 bits), the same twice, fewer bytes."""
    model, options = MODELS["skipgram"], {"logical_hosts": 3, "rounds_per_epoch": 3}
    exact, first, second = (trained(model, SENTENCES, spread(**options, bits=b)) for b in (32, bits, bits))
    assert same(first, second) and not same(first, exact)
    error = np.abs(first.embeddings.vectors - exact.embeddings.vectors).max()
    assert error < np.abs(exact.embeddings.vectors).max() * {16: 0.02, 8: 0.2}[bits]
    assert first.summary["bytes_by_kind"]["rows"] < exact.summary["bytes_by_kind"]["rows"] * (bits + 8) / 32


def test_base_sends_the_model_to_everyone() -> None:
    """2 (H - 1) / H times the model for each host and round (any2vec-and-combiners, section 4)."""
    hosts, rounds, result = 4, 3, None
    options = spread(logical_hosts=hosts, scheme="rep-base", rounds_per_epoch=rounds)
    result = trained(MODELS["skipgram"], SENTENCES, options)
    model_bytes = 2 * len(result.embeddings) * 8 * 4
    assert result.summary["rounds"] == 2 * rounds
    assert result.summary["bytes_by_kind"]["rows"] == 2 * rounds * hosts * 2 * (hosts - 1) / hosts * model_bytes
    assert result.summary["bytes_by_kind"]["ids"] == 0


@models
def test_inspection_covers_all_that_is_read(model: SequenceModel) -> None:
    """Rows that it did not mark are NaN: one look at them would options."""
    tokens = np.array([word for sentence in SENTENCES for word in [*sentence, -1]], np.int32)
    counts = np.bincount(tokens[tokens >= 0], minlength=300)
    random = np.random.default_rng(5)
    tables = {name: random.normal(0, 0.1, (300, 8)).astype(np.float32) for name in ("input", "output")}
    source = StoredTokens(tokens, 16)
    learner = SequenceLearner(
        model, counts, np.full(300, 0.7), source, tables, block=16, piece=64, threads=1, seed=1
    )  # fmt: skip
    start, stop = source.boundary(1000), source.boundary(1300)
    marks = {name: np.zeros(300, np.uint8) for name in tables}
    learner.inspect(1, start, stop, marks)
    for name, table in tables.items():
        table[marks[name] == 0] = np.nan
    before = {name: table.copy() for name, table in tables.items()}
    learner.run(Work(Span(start, stop, ProgressLine(start, stop, 0.0, 0.5)), 1, Round(0), 0.5))
    for name, table in tables.items():
        assert 0 < marks[name].sum() < 300
        assert np.isfinite(table[marks[name] == 1]).all()
        changed = (table != before[name]).any(axis=1) & (marks[name] == 1)
        assert changed.sum() > 0.9 * marks[name].sum()  # and it marks hardly more than that


def test_chunks_end_at_sentence_ends() -> None:
    tokens = np.array([word for sentence in SENTENCES for word in [*sentence, -1]], np.int32)
    source = StoredTokens(tokens, 16)
    found = chunk_bounds(len(tokens), 7, source.boundary)
    assert found[0] == 0 and found[-1] == len(tokens)
    assert all(tokens[cut - 1] == -1 for cut in found[1:])
    sizes = np.diff(found)
    assert sizes.max() - sizes.min() <= 2 * 30


def test_the_rest_of_an_epoch_is_shared_out_anew() -> None:
    """Three hosts have left something; two, and five, take it over without a gap and without an overlap."""
    rest = [(30, 50), (80, 100), (140, 150)]
    for hosts in (1, 2, 5):
        shares = share_rest(rest, hosts, lambda position: -(-position // 5) * 5)
        taken = sorted(position for share in shares for start, stop in share for position in range(start, stop))
        assert taken == [position for start, stop in rest for position in range(start, stop)]
        assert len(shares) == hosts


def test_too_many_hosts_for_the_data() -> None:
    with pytest.raises(errors.InputError, match="too few for 9 hosts: rank"):
        trained(MODELS["skipgram"], [["a", "b"] * 4] * 5, spread(logical_hosts=9))


def stopped(model: SequenceModel, data: Any, out: Path, options: dict[str, Any] | None, after: int) -> None:
    """A run that leaves a checkpoint at every record and breaks after some of them."""
    ended_at_record(after, trained, model, data, options, out=out)


@pytest.fixture
def every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.train.progress.RECORD_SECONDS", 0.0)


@pytest.mark.parametrize("bits", [32, 8])
def test_overlap_is_deterministic_and_late_by_one_round(bits: int) -> None:
    """The same twice whatever the scheduling; one host hears from nobody and is the plain run but for rounding."""
    model, options = MODELS["skipgram"], {"rounds_per_epoch": 5, "bits": bits, "overlap": True}
    first, second = (trained(model, SENTENCES, spread(logical_hosts=4, **options)) for _ in range(2))
    prompt = trained(model, SENTENCES, spread(logical_hosts=4, rounds_per_epoch=5, bits=bits))
    assert same(first, second) and not same(first, prompt)
    # The ids of the first two rounds have messages of their own, in place of those of the first. So has the curvature
    # of the last round, in two exchanges in place of a part of the rows' messages; rows are pulled twice before any are
    # pushed, with slices that nobody needs.
    dim = model.dim
    more = {"control": 4 * 3 * (2 * overhead(0) + overhead(1)), "dense": 3 * 2 * 4 * dim * (dim + 1) // 2}
    assert first.summary["bytes_by_kind"] == {
        kind: size + more.get(kind, 0) for kind, size in prompt.summary["bytes_by_kind"].items()
    }
    one = trained(model, SENTENCES, spread(hosts=1, rounds_per_epoch=5, overlap=True))
    np.testing.assert_allclose(one.embeddings.vectors, trained(model, SENTENCES).embeddings.vectors, atol=1e-4)


@pytest.mark.usefixtures("every_record")
@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize(
    "how", [{"scheme": "pull-opt"}, {"scheme": "rep-opt"}, {"overlap": True}], ids=["pull", "rep", "overlap"]
)
def test_resume_on_as_many_hosts_gives_the_same_bits(tmp_path: Path, how: dict[str, Any], bits: int) -> None:
    """In the middle of an epoch; what rounding left out, and what overlap is ahead, is in the checkpoint."""
    options = spread(logical_hosts=3, rounds_per_epoch=4, bits=bits, **how)
    whole = trained(MODELS["skipgram"], SENTENCES, options)
    stopped(MODELS["skipgram"], SENTENCES, tmp_path / "out", options, 3)
    again = trained(MODELS["skipgram"], SENTENCES, options, out=tmp_path / "out", resume=True)
    assert same(whole, again) and whole.summary["items"] == again.summary["items"]


@pytest.mark.usefixtures("every_record")
@pytest.mark.parametrize("after", [3, 5])
@pytest.mark.parametrize("sync", ["ds-sync", "leader", "elastic"])
def test_resume_gives_the_same_bits_where_nothing_is_merged(tmp_path: Path, sync: str, after: int) -> None:
    """In the first epoch and in the second; replicas, leaders and centers are in the checkpoint."""
    options = spread(logical_hosts=4, rounds_per_epoch=4, sync=sync)
    whole = trained(MODELS["skipgram"], SENTENCES, options)
    stopped(MODELS["skipgram"], SENTENCES, tmp_path / "out", options, after)
    again = trained(MODELS["skipgram"], SENTENCES, options, out=tmp_path / "out", resume=True)
    assert same(whole, again) and whole.summary["items"] == again.summary["items"]


@pytest.mark.usefixtures("every_record")
@pytest.mark.parametrize("hosts", [None, 1, 2, 5])
@pytest.mark.parametrize("how", [{}, {"bits": 8}, {"overlap": True}], ids=["plain", "8 bits", "overlap"])
def test_resume_on_other_hosts_trains_every_position_once(
    tmp_path: Path, hosts: int | None, how: dict[str, Any]
) -> None:
    model = MODELS["skipgram"]
    stopped(model, SENTENCES, tmp_path / "out", spread(logical_hosts=3, rounds_per_epoch=4, **how), 3)
    options = None if hosts is None else spread(logical_hosts=hosts, **how)
    again = trained(model, SENTENCES, options, out=tmp_path / "out", resume=True)
    assert again.summary["items"] == trained(model, SENTENCES).summary["items"]
    assert np.isfinite(again.embeddings.vectors).all()


def test_on_epoch_shows_what_hosts_agree_on() -> None:
    shown: list[tuple[int, np.ndarray]] = []
    result = any2vec.fit(
        MODELS["skipgram"], SENTENCES, epochs=3, threads=1, hosts=any2vec.HostOptions(logical_hosts=2),
        on_epoch=lambda epoch, embeddings: shown.append((epoch, embeddings.vectors.copy())),
    )  # fmt: skip
    assert [epoch for epoch, _ in shown] == [1, 2, 3]
    assert (shown[-1][1] == result.embeddings.vectors).all() and (shown[0][1] != shown[1][1]).any()


def test_processes_are_logical_hosts(text: Path, tmp_path: Path) -> None:
    """Local processes, and torchrun's: the same bits and the same bytes by kind as threads of one process."""
    pytest.importorskip("torch", reason="hosts as processes need torch")
    model = MODELS["skipgram"]
    options = {"rounds_per_epoch": 3}
    logical = trained(model, str(text), spread(logical_hosts=2, **options))
    local = trained(model, str(text), spread(hosts=2, **options), out=tmp_path / "local")
    assert same(logical, local)
    for name in ("bytes_by_kind", "bytes_by_phase", "items", "hosts", "rounds", "rows"):
        assert logical.summary[name] == local.summary[name], name
    flags = "--dim 8 --window 3 --min-count 1 --subsample 1e-2 --epochs 2 --threads 1 --seed 3"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = [*torchrun, "-m", "any2vec", "train", "skipgram", str(text), *flags.split(), "--rounds-per-epoch", "3"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "torchrun"), "--json"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hosts"] == 2  # one rank speaks
    assert (any2vec.Embeddings.load(tmp_path / "torchrun").vectors == logical.embeddings.vectors).all()


def test_data_in_memory_for_processes() -> None:
    """A graph is stored for them; words are asked to be."""
    pytest.importorskip("torch", reason="hosts as processes need torch")
    import networkx

    graph = networkx.karate_club_graph()
    logical = trained(NODES, graph, spread(logical_hosts=2))
    assert same(logical, trained(NODES, graph, spread(hosts=2)))
    for sentences in (SENTENCES, ["too long to be the name of a file " * 20]):
        with pytest.raises(errors.InputError, match="in memory"):
            trained(MODELS["skipgram"], sentences, spread(hosts=2))


def test_a_graph_in_memory_is_read_as_asked_for_once() -> None:
    """What processes find is stored already: the options of reading are no longer theirs."""
    pytest.importorskip("torch", reason="hosts as processes need torch")
    graph, options = scipy.sparse.random(30, 30, 0.2, random_state=1).tocsr(), GraphOptions(directed=True)
    made = any2vec.fit(NODES, graph, graph=options, threads=1, hosts=2)
    assert made.summary["data"]["is_directed"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hosts": 0}, "hosts must be a whole number from 1"),
        ({"logical_hosts": 257}, "logical_hosts must be a whole number from 1 to 256"),
        ({"hosts": 2, "logical_hosts": 2}, "choose one of the two"),
        ({"bits": 7}, "bits must be 32, 16 or 8, got 7"),
        ({"rounds_per_epoch": 0}, "rounds_per_epoch must be"),
        ({"sync": "best"}, "sync must be"),
        ({"scheme": "rep"}, "scheme must be one of rep-base"),
        ({"overlap": True, "scheme": "rep-opt"}, "overlap is for scheme pull-opt"),
        ({"ray": "local"}, "Say how many hosts"),
        ({"host_timeout": 0}, "host_timeout must be"),
        ({"link": "fast"}, "A link is a bandwidth .* Got 'fast'"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InputError, match=message):
        agreed(RoundAgreement, **options)
