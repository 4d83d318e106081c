"""Models of clicks on several hosts: every agreement and cache, servers, lost hosts, other carriers."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import any2vec
from any2vec.cli.app import app
from any2vec.data.clicks.clicks import read_clicks
from any2vec.errors import HostError, InputError
from any2vec.sync.options.names import CLICK_SYNCS
from any2vec.sync.options.trainers import TrainerAgreement, parse_cache
from click_runs import SMALL, PlantedFiles, dense_of, plant, same, spread
from spreads import agreed

pytest.importorskip("torch", reason="models of clicks need torch")
EVERY = {"fr-easgd": ":3", "fr-ma": ":3", "fr-bmuf": ":3", "bounded": ":2", "m-of-n": ":2"}
SYNCS = [name + EVERY.get(name, "") for name in CLICK_SYNCS]
LAYOUTS: dict[str, dict[str, Any]] = {
    "trainers": {"logical_hosts": 2},
    "servers": {"logical_hosts": 3, "servers": 2, "sync_servers": 1},
    "sync server": {"logical_hosts": 2, "sync_servers": 1},
}
processes = pytest.mark.skipif(os.name == "nt", reason="hosts as processes need POSIX")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> PlantedFiles:
    """25 batches of 32."""
    return plant(tmp_path_factory.mktemp("hosts"), 800, 200, rows=30, strength=2.0)


@pytest.fixture(scope="module")
def alone(files: PlantedFiles) -> any2vec.FitResult:
    return files.fit()


def way(sync: str, cache: str = "none", layout: str = "trainers", **more: Any) -> dict[str, Any]:
    return spread(sync, LAYOUTS[layout] | {"cache": cache} | more)


# ---- every way that is legal


@pytest.mark.parametrize("cache", ["none", "het:10", "bagpipe:5"])
@pytest.mark.parametrize("sync", SYNCS)
def test_every_way_trains(sync: str, cache: str, files: PlantedFiles) -> None:
    """Each example once; far from where it began; and what it sent is told. Layouts take turns."""
    layout = list(LAYOUTS)[(SYNCS.index(sync) + len(cache)) % 3]
    if sync.startswith("m-of-n") and cache != "none":
        with pytest.raises(InputError, match=r"drops gradients that come too late, and a cache .* use cache none"):
            files.fit(hosts=way(sync, cache, layout))
        return
    reported = way(sync, cache, layout)
    result = files.fit(hosts=reported)
    summary = result.summary
    assert summary["items"] == files.num_train and (summary["sync"], summary["cache"]) == (sync, cache)
    layouts = [summary["hosts"], summary["servers"], summary["sync_servers"]]
    assert layouts == [reported["logical_hosts"], reported.get("servers", 0), reported.get("sync_servers", 0)]
    assert np.isfinite(result.embeddings.vectors).all() and np.abs(result.embeddings.vectors).max() > 0.06
    assert summary["loss"] < 0.69 and np.isfinite(dense_of(result)).all()
    kinds, phases = summary["bytes_by_kind"], summary["bytes_by_phase"]
    assert kinds["rows"] > 0 and sum(kinds.values()) == sum(phases.values())
    assert (kinds.get("dense", 0) > 0) == (sync != "none")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sync": "shadow"}, "sync of a click model must be one of none, shadow-easgd, .*, got 'shadow'"),
        ({"sync": "fr-ma:0"}, "every of fr-ma must be"),
        ({"sync": "shadow-easgd:0.7"}, "alpha of shadow-easgd must be"),
        ({"sync": "bsp:3"}, "bsp"),
        (
            {"cache": "het"},
            "cache must be none, het:BOUND.* or bagpipe:BATCHES, like het:100 or bagpipe:200, got 'het'",
        ),
        ({"cache": "het:x"}, "cache must be none"),
        ({"cache": "het:10:mru"}, "cache must be none"),
        ({"cache": "bagpipe:0"}, "look-ahead of bagpipe must be"),
        ({"cache": "bagpipe:5:lru"}, "cache must be none"),
        ({"cache_rows": 0}, "cache_rows must be"),
        ({"servers": -1}, "servers must be"),
        ({"sync_servers": 1.5}, "sync_servers must be"),
        ({"rounds_per_epoch": 0}, "rounds_per_epoch must be"),
        ({"hosts": 2, "logical_hosts": 2}, "choose one of the two"),
        ({"logical_hosts": 2, "sync": "m-of-n", "cache": "het:5"}, "use cache none"),
        (
            {"sync": "bsp", "sync_servers": 1},
            "sync_servers is for sync shadow-easgd, fr-easgd, bounded, async, m-of-n; leave it out with sync bsp.",
        ),
        ({"sync": "shadow-ma:0.5", "sync_servers": 2}, "leave it out with sync shadow-ma:0.5."),
        ({"cache_rows": 0.2}, "cache_rows is for cache het or age; leave it out with cache none."),
        (
            {"cache": "bagpipe:5", "cache_rows": 1.0},
            "cache_rows is for cache het or age; leave it out with cache bagpipe:5.",
        ),
    ],
)
def test_options_that_are_not_legal(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        agreed(TrainerAgreement, **options)


def test_names_of_caches() -> None:
    assert parse_cache("age:7:lru").freshness == "age" and parse_cache("het:7").freshness == "het"
    assert parse_cache("het:7").policy == "tinylfu" and parse_cache("het:7:lru").policy == "lru"
    assert (parse_cache("bagpipe:9").kind, parse_cache("bagpipe:9").number) == ("bagpipe", 9)


def test_more_gradients_a_step_than_trainers(files: PlantedFiles) -> None:
    with pytest.raises(InputError, match="takes 3 gradients a step, of 2 trainers; ask for fewer"):
        files.fit(hosts=way("m-of-n:3"))


# ---- what is the same


@pytest.mark.parametrize("layout", ["trainers", "servers"])
@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "sgd"])
def test_a_look_ahead_is_synchronous_training_bit_for_bit(layout: str, optimizer: Any, files: PlantedFiles) -> None:
    model = any2vec.DeepFM(dim=4, layers="8", batch_size=32, optimizer=optimizer)
    plain, ahead, far = (
        files.fit(model, way("bsp", cache, layout), epochs=2) for cache in ("none", "bagpipe:3", "bagpipe:500")
    )
    assert same(plain, ahead) and same(plain, far)


def test_synchronous_training_is_the_same_wherever_rows_are(files: PlantedFiles) -> None:
    held, served = (files.fit(hosts=way("bsp", layout=layout, logical_hosts=2)) for layout in ("trainers", "servers"))
    assert same(held, served)


@pytest.mark.parametrize(
    "hosts",
    [
        {"sync": "none"}, {"sync": "none", "servers": 1}, {"sync": "async", "sync_servers": 1},
        {"sync": "bsp"}, {"sync": "bsp", "servers": 2}, {"sync": "bsp", "cache": "bagpipe:4", "servers": 1},
        {"sync": "shadow-ma"}, {"sync": "shadow-bmuf", "servers": 1}, {"sync": "bounded:1"}, {"sync": "m-of-n:1"},
        {"sync": "async", "servers": 1, "sync_servers": 1},
    ],
    ids=lambda hosts: "-".join(map(str, hosts.values())),
)  # fmt: skip
def test_one_trainer_is_one_host_bit_for_bit(hosts: dict[str, Any], files: PlantedFiles, alone: Any) -> None:
    """Through servers, or its own; with nobody to agree with."""
    assert same(alone, files.fit(hosts={"logical_hosts": 1} | hosts))


def test_bags_over_several_servers_are_sums_of_their_sums(files: PlantedFiles, tmp_path: Path) -> None:
    """The same bits where bags have one id; else another order of sums, no more."""
    hosts = {"logical_hosts": 1, "servers": 3, "sync": "none"}
    single = tmp_path / "single.toml"
    lines = files.schema.read_text().splitlines()
    single.write_text("\n".join(line for line in lines if not line.startswith("multi_valued")))
    assert same(files.fit(schema=single), files.fit(schema=single, hosts=hosts))
    assert np.allclose(files.fit().embeddings.vectors, files.fit(hosts=hosts).embeddings.vectors, atol=1e-4)


def test_one_trainer_with_stale_rows_learns_as_one_host(files: PlantedFiles, alone: any2vec.FitResult) -> None:
    """Its own pushes come back in another order of sums, no more."""
    result = files.fit(hosts={"logical_hosts": 1, "servers": 1, "sync": "none", "cache": "het:10"})
    assert np.allclose(result.embeddings.vectors, alone.embeddings.vectors, atol=1e-3)


def test_the_mean_of_two_trainers_gradients_is_a_batch_of_both(files: PlantedFiles, tmp_path: Path) -> None:
    """Synchronous descent on two hosts is one host's with batches made up of theirs; rounding apart."""
    head, *lines = files.train.read_text().splitlines()
    half, size = len(lines) // 2, 20
    pairs = [at for low in range(0, half, size) for side in (low, low + half) for at in range(side, side + size)]
    (tmp_path / "mixed.tsv").write_text("\n".join([head, *(lines[at] for at in pairs)]) + "\n")
    schema = tmp_path / "hashed.toml"  # rows begin by their number: a vocabulary's would depend on the order
    schema.write_text(files.schema.read_text().replace("'vocabulary'", "'hash'\nhash_rows = 500"))
    two, one = (
        files.fit(
            any2vec.DLRM(dim=4, bottom="8", top="8", batch_size=batch, optimizer="sgd", learning_rate=0.5),
            hosts, schema=schema, data=data,
        )
        for batch, hosts, data in ((size, way("bsp"), files.train), (2 * size, None, tmp_path / "mixed.tsv"))
    )  # fmt: skip
    assert np.allclose(dense_of(two), dense_of(one), atol=1e-5)
    assert np.allclose(two.embeddings.vectors, one.embeddings.vectors, atol=1e-5)


def test_without_an_agreement_the_model_is_rank_0s(files: PlantedFiles, tmp_path: Path) -> None:
    """Its dense layers have seen its half alone, with rows that are everybody's."""
    result = files.fit(hosts=way("none"))
    assert result.summary["items"] == files.num_train and not result.summary["bytes_by_kind"]["dense"]
    other = files.fit(hosts=way("bsp"))
    assert np.abs(dense_of(result) - dense_of(other)).max() > 1e-3


# ---- shapes that are awkward

AWKWARD = [
    "bsp",
    "bsp/bagpipe:4",
    "shadow-ma/bagpipe:4",
    "shadow-easgd",
    "fr-ma:3",
    "m-of-n:2",
    "async/het:5",
    "bounded:1",
    "ds-sync:2",
    "ds-sync/bagpipe:4",
]


@pytest.mark.parametrize("sync", AWKWARD)
@pytest.mark.parametrize("num", [300, 65, 33])
def test_trainers_with_unequal_numbers_of_batches(num: int, sync: str, files: PlantedFiles, tmp_path: Path) -> None:
    """10, 3 and 2 batches for three trainers, the last one short: one trainer may have none at all."""
    part = tmp_path / "part.tsv"
    part.write_text("\n".join(files.train.read_text().splitlines()[: num + 1]) + "\n")
    name, _, cache = sync.partition("/")
    result = files.fit(data=part, hosts={"logical_hosts": 3, "sync": name, "cache": cache or "none"}, epochs=2)
    assert result.summary["items"] == 2 * num and np.isfinite(dense_of(result)).all()


def test_fewer_examples_than_trainers(files: PlantedFiles, tmp_path: Path) -> None:
    part = tmp_path / "part.tsv"
    part.write_text("\n".join(files.train.read_text().splitlines()[:3]) + "\n")
    with pytest.raises(InputError, match="2 examples are too few for 3 trainers"):
        files.fit(data=part, hosts={"logical_hosts": 3})


@pytest.mark.parametrize("sync", ["shadow-easgd", "shadow-bmuf/het:20", "fr-ma:3", "async", "none/het:5"])
def test_threads_of_trainers_share_a_replica(sync: str, files: PlantedFiles) -> None:
    name, _, cache = sync.partition("/")
    result = files.fit(hosts=way(name, cache or "none", "servers", logical_hosts=2), threads=2)
    assert result.summary["items"] == files.num_train and result.summary["threads"] == 2
    assert result.summary["loss"] < 0.69


def test_backup_workers_leave_out_what_comes_late(files: PlantedFiles) -> None:
    """All gradients are accounted for: taken, dropped, or left out, by trainer."""
    result = files.fit(hosts={"logical_hosts": 3, "sync": "m-of-n:2"})
    reported = result.summary["dense_of_hosts"]
    batches = {"0": 9, "1": 8, "2": 8}
    for rank, number in batches.items():
        assert sum(reported[name].get(rank, 0) for name in ("accepted", "dropped", "left_out")) == number
    assert sum(reported["accepted"].values()) >= reported["steps"] >= 8
    assert reported["examples_dropped"] <= 32 * (sum(reported["dropped"].values()) + sum(reported["left_out"].values()))


def test_all_of_n_is_synchronous(files: PlantedFiles) -> None:
    """With nobody to spare no gradient is dropped, and rows and layers are those of bsp."""
    every, bsp = files.fit(hosts=way("m-of-n:2")), files.fit(hosts=way("bsp"))
    assert np.allclose(every.embeddings.vectors, bsp.embeddings.vectors, atol=1e-5)
    assert np.allclose(dense_of(every), dense_of(bsp), atol=1e-5)


# ---- bytes


def test_stale_rows_save_bytes(files: PlantedFiles) -> None:
    """A cache of all rows, and a bound that nobody comes to."""
    none, het = (
        files.fit(hosts=way("none", cache, **more)).summary
        for cache, more in (("none", {}), ("het:10000", {"cache_rows": 1.0}))
    )
    assert none["bytes_by_kind"]["rows"] > 2 * het["bytes_by_kind"]["rows"] > 0


def test_updates_are_counted_by_occurrence_where_that_is_asked_for(files: PlantedFiles) -> None:
    """Two trainers and a cache of all rows: at one bound more is pushed, for more updates are counted."""
    pushed = {}
    for kind in ("het", "het-occurrences"):
        counts = files.fit(hosts=way("fr-ma:1", f"{kind}:30", cache_rows=1.0)).summary["rows_of_hosts"]
        pushed[kind] = counts["pushes"]
        reads = sum(counts[name] for name in ("hits", "refreshes", "misses", "passed"))
        assert counts["updates"] > reads if kind == "het-occurrences" else counts["updates"] == reads
    assert pushed["het-occurrences"] > pushed["het"], pushed


def test_a_cache_that_looks_ahead_asks_for_the_fewest_rows(files: PlantedFiles) -> None:
    """One trainer beside a server; a cache of few rows."""
    reported = {"logical_hosts": 1, "servers": 1, "sync": "bsp", "cache_rows": 0.05}
    found = {
        policy: files.fit(hosts=reported | {"cache": f"het:10000:{policy}"}) for policy in ("belady", "ttl", "fifo")
    }
    rows = {policy: result.summary["rows_of_hosts"]["rows_down"] for policy, result in found.items()}
    assert rows["belady"] < rows["fifo"] and rows["belady"] <= rows["ttl"], rows


@pytest.mark.parametrize("cache", ["het:10", "bagpipe:5"])
def test_cached_rows_stay_cached_where_trainers_meet(cache: str, files: PlantedFiles) -> None:
    """Meeting more often sends no row more; a stop would."""
    rare, often = (
        files.fit(hosts={"logical_hosts": 1, "servers": 1, "sync": "none", "cache": cache, "rounds_per_epoch": rounds})
        for rounds in (1, 8)
    )
    assert same(rare, often) and rare.summary["bytes_by_kind"]["rows"] == often.summary["bytes_by_kind"]["rows"]


def test_dense_bytes_of_synchronous_steps_are_what_they_must_be(files: PlantedFiles) -> None:
    """Two trainers, Q parameters: each sends the other's part of its gradient and its part of the sum, 13 times; but
    the second has 12 batches."""
    result = files.fit(hosts=way("bsp"))
    size = len(dense_of(result))
    assert result.summary["dense_of_hosts"]["steps"] == 13
    assert result.summary["bytes_by_kind"]["dense"] == 4 * (13 * 2 * size - size // 2)


@pytest.mark.parametrize("sync", ["bsp", "bounded:1", "m-of-n:2", "async", "shadow-easgd"])
def test_rows_that_travel_are_as_many_as_planned(sync: str, tmp_path: Path) -> None:
    """Bags of many rows: their sums travel where nobody waits, the rows themselves where steps are kept."""
    files = plant(tmp_path, 640, 10, rows=5000)
    result = files.fit(hosts=spread(sync, {"logical_hosts": 2, "servers": 1}))
    collected = 4 * (SMALL.width + 1) * len(result.embeddings)  # in the end, with the optimizer's state
    counted = result.summary["bytes_by_kind"]["rows"] - collected
    asked = ["--batch-size", "32", "--bottom", "8", "--top", "8", "--dim", "4", "--items-per-s", "1000", "--json"]
    asked += ["--schema", str(files.schema), "--cache-dir", str(tmp_path / "cache"), "--sync", sync]
    asked += ["--logical-hosts", "2", "--servers", "1", "--threads", "1"]
    found = CliRunner().invoke(app, ["plan", "dlrm", str(files.train), *asked])
    planned = json.loads(found.stdout)["bytes_per_step"]
    expected = sum(planned[name] for name in ("rows", "sums", "gradients of rows", "gradients of sums"))
    assert counted == pytest.approx(20 * expected, rel=0.1)


# ---- processes


@processes
def test_one_trainer_beside_a_server(files: PlantedFiles) -> None:
    """Two processes, though --hosts says one."""
    options = {"servers": 1, "sync": "none"}
    carried, logical = (files.fit(hosts=options | {kind: 1}) for kind in ("hosts", "logical_hosts"))
    assert same(carried, logical) and carried.summary["hosts"] == carried.summary["servers"] == 1


@processes
def test_processes_give_the_bits_of_logical_hosts(files: PlantedFiles, tmp_path: Path) -> None:
    options: dict[str, Any] = {"sync": "bsp", "cache": "bagpipe:4", "servers": 1, "rounds_per_epoch": 2}
    logical = files.fit(hosts={"logical_hosts": 2} | options)
    apart = files.fit(hosts={"hosts": 2} | options, out=tmp_path / "out")
    assert same(logical, apart) and logical.summary["bytes_by_kind"] == apart.summary["bytes_by_kind"]
    assert apart.summary["items"] == files.num_train and apart.progress
    assert files.judge(apart.scorer) == files.judge(logical.scorer)


@processes
def test_processes_agree_behind_the_training(files: PlantedFiles, tmp_path: Path) -> None:
    """Of encoded clicks, too, and without a folder."""
    clicks = read_clicks(files.train, files.schema, cache_dir=tmp_path)
    hosts = {"hosts": 2, "servers": 1, "sync_servers": 1, "sync": "shadow-easgd", "cache": "het:20"}
    result = files.fit(hosts=hosts, data=clicks, schema=None)
    assert result.summary["items"] == files.num_train and result.summary["loss"] < 0.69
    assert result.path is None and files.judge(result.scorer).num_examples == 200


def children(parent: int) -> list[int]:
    """Pids of the processes that one has started, in the order of their ranks."""
    found = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True, check=False
    )
    rows = [line.split(None, 1) for line in found.stdout.splitlines()]
    return sorted(int(pid) for pid, command in rows if "any2vec.train.worker" in command)


class Killer:
    """Hears the progress of a run, and kills one of its processes once so much is done."""

    def __init__(self, rank: int, progress: float, checkpoint: Path | None = None) -> None:
        self.rank, self.progress, self.checkpoint = rank, progress, checkpoint
        self.killed_at = 0.0

    def __call__(self, record: Any) -> None:
        is_kept = self.checkpoint is None or self.checkpoint.exists()
        if record.progress < self.progress or self.killed_at or not is_kept:
            return
        self.killed_at = time.monotonic()
        os.kill(children(os.getpid())[self.rank], signal.SIGKILL)


LONG: dict[str, Any] = {"epochs": 400, "checkpoint_seconds": 1e-3}
SERVED = {"hosts": 2, "servers": 1, "rounds_per_epoch": 2, "host_timeout": 10}


@processes
@pytest.mark.parametrize(("rank", "sync"), [(2, "bsp"), (1, "shadow-easgd")], ids=["server", "trainer"])
def test_a_host_that_is_killed_ends_the_others(rank: int, sync: str, files: PlantedFiles, tmp_path: Path) -> None:
    """In bounded time, in one sentence that names the rank and says what to do."""
    out = tmp_path / "out"
    killer = Killer(rank, 0.0, out / "checkpoint.safetensors")
    with pytest.raises(HostError, match=f"^Rank {rank} was killed by SIGKILL, perhaps for memory\\. .*--resume"):
        files.fit(hosts=SERVED | {"sync": sync}, out=out, callback=killer, **LONG)
    assert time.monotonic() - killer.killed_at < 60
    assert (out / "checkpoint.safetensors").exists() and not (out / "meta.json").exists()
    assert children(os.getpid()) == []


@processes
def test_a_run_goes_on_after_its_server_was_killed(
    files: PlantedFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And, synchronous as it is, ends with the bits of a run that lost nobody."""
    out, hosts = tmp_path / "out", SERVED | {"sync": "bsp"}
    killer = Killer(2, 0.0, out / "checkpoint.safetensors")
    options = {"epochs": 20, "checkpoint_seconds": 1e-3}
    with caplog.at_level(logging.WARNING, "any2vec"):
        result = files.fit(hosts=hosts | {"restarts": 1}, out=out, callback=killer, **options)
    assert killer.killed_at and result.summary["restarts"] == 1
    assert result.summary["items"] == 20 * files.num_train
    lost = re.search(r"the last checkpoint(?: \(([\d,]+) updates of rows are lost in all\))? \(1 of 1\)", caplog.text)
    assert lost and result.summary.get("updates_lost") == (int(lost[1].replace(",", "")) if lost[1] else None)
    two_rounds = 2 * 2 * 7 * len(result.embeddings)  # of two trainers, 7 batches each, which may change every row
    assert result.summary.get("updates_lost", 0) <= two_rounds
    assert not list(out.glob("lost-*.json"))
    whole = files.fit(hosts={"logical_hosts": 2, "servers": 1, "rounds_per_epoch": 2, "sync": "bsp"}, epochs=20)
    assert same(result, whole)


@processes
@pytest.mark.parametrize("rank", [2, 0], ids=["server", "first trainer"])
def test_a_run_begins_anew_that_lost_a_host_before_its_first_checkpoint(
    rank: int, files: PlantedFiles, tmp_path: Path
) -> None:
    out, hosts = tmp_path / "out", SERVED | {"sync": "bsp", "restarts": 1}
    killer = Killer(rank, 0.0)
    result = files.fit(hosts=hosts, out=out, callback=killer, epochs=60)
    assert killer.killed_at and result.summary["restarts"] == 1
    assert result.summary["items"] == 60 * files.num_train and not list(out.glob("lost-*.json"))
    assert any2vec.Embeddings.load(out).keys is not None


@processes
def test_a_trainer_alone_is_started_again(files: PlantedFiles, tmp_path: Path) -> None:
    """The run lasts several times the half second that its first record takes."""
    killer = Killer(0, 0.0)
    hosts = {"hosts": 1, "restarts": 1, "sync": "none"}
    result = files.fit(hosts=hosts, out=tmp_path / "out", callback=killer, epochs=400)
    assert killer.killed_at and result.summary["restarts"] == 1


@processes
def test_trainers_in_step_have_one_thread_on_machines_with_many_cores(
    files: PlantedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("any2vec.machine.usable_cores", lambda: 8)
    result = files.fit(hosts={"hosts": 2, "sync": "bsp"}, threads=0)
    assert result.summary["threads"] == 1
