"""A merge rule of another package, found by its entry point: it is an agreement of every task that has merge rules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from found_by_children import python_path

RULE = '''
"""Trimmed mean (Yin et al. 2018): of each number the hosts' largest and least changes do not count."""

import numpy as np

from any2vec.sync.rules.merge_rule import MergeRule


class TrimmedMean(MergeRule):
    def combine(self, start_BD, changes, out_BD):
        change_HBD = np.sort(np.stack(changes), axis=0)
        cut = (len(changes) - 1) // 3
        out_BD[:] = start_BD + change_HBD[cut : len(changes) - cut].mean(axis=0)


class Counting(MergeRule):
    """The sum, and how often it was asked for."""

    def __init__(self, occurrence_B=None):
        self.calls = np.zeros(1)

    def combine(self, start_BD, changes, out_BD):
        self.calls += 1
        out_BD[:] = start_BD + sum(changes)

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = np.array(state["calls"])


class Wild(MergeRule):
    def combine(self, start_BD, changes, out_BD):
        out_BD[:] = np.nan


class NoRule:
    pass
'''

AGREED = """
import sys
import numpy as np
from any2vec.cluster.threads import run_logical
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.make import make_agreement
from any2vec.sync.options.names import parse_click_sync
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.sync.make import make_replicated
from any2vec.tables.replica import Replica
from any2vec.types import ProgressLine, Round, Span, Work

class AllRows:
    def inspect(self, epoch, start, stop, marks):
        for mark_V in marks.values():
            mark_V[:] = 1

def rows(scheme, transport):
    tables = {name: np.full((size, 2), 10, np.float32) for name, size in (("a", 5), ("b", 3))}
    options = RoundAgreement(sync="trimmed-mean", scheme=scheme)
    agreement = make_agreement(options, transport, tables, AllRows())
    span = Span(0, 1, ProgressLine(0, 1, 0.0, 1.0))
    agreement.begin_round(Work(span, 0, Round(0, (span,)), 1.0))
    for table in tables.values():
        table += (1, 5, 100, 6)[transport.rank]
    agreement.end_round()
    found = agreement.gather_result()
    return None if found is None else [found[name].tolist() for name in "ab"]

def dense(sync, transport):
    replica = Replica(np.full(7, 10, np.float32), "sgd", 1.0)
    agreement = make_replicated(parse_click_sync(sync), replica, ProcessGroup(transport, 4))
    agreement.start()
    agreement.begin(0, 0)
    agreement.apply(0, 0, np.full(7, -(1, 5, 100, 6)[transport.rank], np.float32))
    agreement.close()
    found = agreement.gather_result()
    return None if found is None else found.tolist()

for scheme in ("rep-base", "rep-opt", "pull-opt"):
    found = run_logical(4, lambda transport: rows(scheme, transport))[0]
    assert found == [[[15.5, 15.5]] * 5, [[15.5, 15.5]] * 3], found
for sync in ("trimmed-mean:1", "fr-trimmed-mean:1"):
    assert run_logical(4, lambda transport: dense(sync, transport))[0] == [15.5] * 7
found = run_logical(4, lambda transport: dense("shadow-trimmed-mean", transport))[0]
assert len(set(found)) == 1 and 10 < found[0] < 122, found
"""

TRAINED = """
import any2vec as a2v
words = [[f"w{(line + place) % 9}" for place in range(6)] for line in range(400)]
spread = a2v.HostOptions(logical_hosts=3)
trimmed, plain = (a2v.fit(a2v.SkipGram(dim=4, min_count=1), words, hosts=spread, sync=sync, threads=1)
                  for sync in ("trimmed-mean", "mean"))
assert trimmed.summary["sync"] == "trimmed-mean" and (trimmed.embeddings.vectors != plain.embeddings.vectors).any()
triples = [(f"e{i}", f"r{i % 2}", f"e{(3 * i + 1) % 40}") for i in range(800)]
model = a2v.ComplEx(dim=4, batch_size=40)
for sync in ("trimmed-mean", "fr-trimmed-mean:3", "shadow-trimmed-mean", "counting"):
    found = a2v.fit(model, triples, hosts=spread, sync=sync, threads=1, epochs=2)
    assert found.summary["sync"] == sync and found.summary["items"] == 1600
for sync, said in (("wild", "Wild has made rows that are not finite"), ("no-rule", "is no subclass of"),
                   ("broken", "rule broken of the package trimmed cannot be loaded"), ("no", "sync must be one of")):
    try:
        a2v.fit(model, triples, hosts=spread, sync=sync, threads=1)
    except a2v.InputError as error:
        assert said in str(error), error
    else:
        raise AssertionError(sync)
"""

RESUMED = """
import sys
from pathlib import Path
import numpy as np
import any2vec as a2v
from any2vec.formats.safetensors_file import read_arrays
triples = [(f"e{i}", f"r{i % 2}", f"e{(3 * i + 1) % 40}") for i in range(800)]
for sync, calls in (("counting", "entities.rule.calls@0"), ("fr-counting:3", "merged.entities.rule.calls@0")):
    out = Path(sync.replace(":", "-"))
    def fit(resume=False, callback=None, out=out):
        return a2v.fit(a2v.ComplEx(dim=4, batch_size=40), triples, hosts=a2v.HostOptions(logical_hosts=2), sync=sync,
                       threads=1, epochs=4, out=out, resume=resume, callback=callback, checkpoint_seconds=1e-9)
    class Enough(Exception):
        pass
    def stops(record):
        if record.progress >= 0.6:
            raise Enough
    import any2vec.train.progress as progress
    progress.RECORD_SECONDS = 0.0
    try:
        fit(callback=stops)
        raise AssertionError("it did not stop")
    except Enough:
        pass
    assert read_arrays(out / "checkpoint.safetensors")[0][calls] > 0
    again, whole = fit(resume=True), fit(out=None)
    assert np.array_equal(again.embeddings.vectors, whole.embeddings.vectors)
"""

STREAMED = """
import any2vec as a2v
lines = [" ".join(f"w{(line + place) % 9}" for place in range(6)) for line in range(3000)]
from pathlib import Path
Path("lines.txt").write_text("\\n".join(lines))
model, spread = a2v.StreamSkipGram(dim=4), a2v.HostOptions(logical_hosts=3)
for sync in ("sync", "trimmed-mean"):
    found = a2v.stream(model, "lines.txt", hosts=spread, sync=sync)
    assert found.summary["sync"] == sync and len(found.embeddings) == 9
"""

STREAMED_ON = """
from pathlib import Path
import numpy as np
import any2vec as a2v
from any2vec.formats.safetensors_file import read_arrays
from any2vec.tasks.stream.options import StreamOptions
lines = [" ".join(f"w{(line + place) % 9}" for place in range(6)) for line in range(1200)]
Path("lines.txt").write_text("\\n".join(lines))
def stream(out, **options):
    known = {"threads": 1, "linger": 0, "batch_bytes": 2000, "checkpoint_seconds": 1e6, "snapshot_seconds": 1e6}
    return a2v.stream(a2v.StreamSkipGram(dim=4), "lines.txt", sync="counting", hosts=a2v.HostOptions(logical_hosts=2),
                      options=StreamOptions(**known | options), out=out)
def calls(out):
    arrays = read_arrays(Path(out) / "checkpoint.safetensors")[0]
    return {name: array for name, array in arrays.items() if ".rule." in name}
stream("parts", steps=6)
first = calls("parts")
stream("parts", resume=True)
again, whole = calls("parts"), (stream("whole"), calls("whole"))[1]
assert len(whole) == 4 and set(first) == set(again) == set(whole), (first, again, whole)
for name, count in whole.items():
    assert 0 < first[name] < again[name] == count, (name, first[name], again[name], count)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip would have installed it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "trimmed.py").write_text(RULE)
    about = folder / "trimmed-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: trimmed\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[any2vec.rules]\ntrimmed-mean = trimmed:TrimmedMean\ncounting = trimmed:Counting\nwild = trimmed:Wild\n"
        "no-rule = trimmed:NoRule\nbroken = trimmed:Nothing\n"
    )
    return folder


def run(package: Path, *words: str) -> str:
    tests = Path(__file__).parents[1] / "helpers"
    environment = os.environ | {"PYTHONPATH": python_path(package, tests), "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, *words], cwd=package, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_merges_rows_and_dense_vectors(package: Path) -> None:
    """Of four hosts' changes 1, 5, 6 and 100 the middle ones count."""
    run(package, "-c", AGREED)


def test_it_trains_words_and_triples(package: Path) -> None:
    run(package, "-c", TRAINED)


def test_its_memory_is_kept(package: Path) -> None:
    run(package, "-c", RESUMED)


def test_it_trains_a_stream(package: Path) -> None:
    run(package, "-c", STREAMED)


def test_its_memory_is_kept_in_a_stream(package: Path) -> None:
    """Two servers have two tables each; the rule counts the rounds that it has merged."""
    run(package, "-c", STREAMED_ON)


def test_it_trains_dense_layers_of_clicks(package: Path) -> None:
    pytest.importorskip("torch")
    run(package, "-c", CLICKS)


CLICKS = """
from pathlib import Path
from click_runs import plant
files = plant(Path("."), 1500, 300)
for sync in ("trimmed-mean:4", "shadow-trimmed-mean"):
    found = files.fit(hosts={"logical_hosts": 3, "sync": sync})
    assert found.summary["sync"] == sync and found.summary["items"] == 1500, found.summary
    assert found.summary["dense_of_hosts"]["syncs"] > 3
"""


def test_it_trains_by_command(package: Path) -> None:
    (package / "text.txt").write_text("one two three four five six\n" * 400)
    out = run(package, "-m", "any2vec", "train", "skipgram", "text.txt", "--dim", "4", "--logical-hosts", "3", "--sync",
              "trimmed-mean", "--out", "out", "--json", "--quiet")  # fmt: skip
    assert json.loads(out)["sync"] == "trimmed-mean"
