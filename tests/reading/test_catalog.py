"""The catalog against a local server that misbehaves in every way that servers do."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from any2vec.data.catalog import catalog
from any2vec.data.catalog.catalog import DataSet, SourceFile
from any2vec.errors import DataError, InputError, StorageError
from cli_runs import done

CONTENT = bytes(range(256)) * 400
ADDRESS = "https://example.invalid/owner/name/commit/folder/a%20b.txt"


class Server(ThreadingHTTPServer):
    """Serves CONTENT; `faults` are used up one a request."""

    faults: list[str]
    requests: list[tuple[str, str | None]]
    wanted: threading.Semaphore
    """a slow answer sends a byte for each one that is asked for"""
    is_over: threading.Event
    """ends the answers that wait"""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.requests.append((self.path, wanted))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault.isdigit():
            self.send_error(int(fault))
            return
        content = b"x" * len(CONTENT) if fault == "wrong" else (CONTENT + b"more" if fault == "longer" else CONTENT)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and fault != "no range" else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        try:
            if fault == "slow":
                for byte in body:
                    self.server.wanted.acquire()
                    if self.server.is_over.is_set():
                        return
                    self.wfile.write(bytes([byte]))
            elif fault == "stall":
                self.wfile.write(body[:1000])
                self.server.is_over.wait()
            else:
                self.wfile.write(body[:5000] if fault == "truncated" else body)
        except OSError:
            pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    running = Server(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    running.faults, running.requests = [], []
    running.wanted, running.is_over = threading.Semaphore(1), threading.Event()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    file = SourceFile(name="a b.txt", address=ADDRESS, num_bytes=len(CONTENT), sha256=sha256)
    toy = DataSet(name="toy", family="text", what="a toy", license="none", files=(file,))
    monkeypatch.setitem(catalog.CATALOG, "toy", toy)
    monkeypatch.setenv("no_proxy", "*")
    yield running
    running.is_over.set()
    running.wanted.release()
    running.shutdown()
    running.server_close()
    thread.join()


def fetch(server: Server, folder: Path, **options: Any) -> Path:
    base = f"http://127.0.0.1:{server.server_address[1]}/"
    return catalog.download("toy", folder, base_url=base, **{"timeout": 5.0, "pause": 0.01, **options})


def test_fetches_checks_and_does_not_fetch_again(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = fetch(server, tmp_path, progress=lambda *one: seen.append(one))
    assert folder == tmp_path / "toy"
    assert (folder / "a b.txt").read_bytes() == CONTENT
    assert [one.name for one in folder.iterdir()] == ["a b.txt"]
    assert seen[-1] == ("a b.txt", len(CONTENT), len(CONTENT))
    fetch(server, tmp_path)
    assert [path for path, _ in server.requests] == [urlsplit(ADDRESS).path.replace("%", "%25")]


@pytest.mark.parametrize("fault", ["wrong", "longer", "500", "503", "429", "truncated"])
def test_gets_over_one_fault(server: Server, tmp_path: Path, fault: str) -> None:
    server.faults = [fault]
    assert (fetch(server, tmp_path) / "a b.txt").read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_takes_up_a_broken_transfer_where_it_ended(server: Server, tmp_path: Path) -> None:
    server.faults = ["truncated", "truncated"]
    assert (fetch(server, tmp_path) / "a b.txt").read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == [None, "bytes=5000-", "bytes=10000-"]


def test_starts_anew_where_the_server_cannot_resume(server: Server, tmp_path: Path) -> None:
    server.faults = ["truncated", "no range"]
    assert (fetch(server, tmp_path) / "a b.txt").read_bytes() == CONTENT


def test_a_part_that_the_server_does_not_know_is_dropped(server: Server, tmp_path: Path) -> None:
    server.faults = ["truncated", "416"]
    assert (fetch(server, tmp_path) / "a b.txt").read_bytes() == CONTENT
    assert server.requests[-1][1] is None


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (["wrong"] * 4, "SHA-256"),
        (["longer"] * 4, "more bytes"),
        (["500"] * 4, "500"),
        (["truncated"] * 4, "20,000 of"),
    ],
)
def test_gives_up_with_one_sentence(server: Server, tmp_path: Path, faults: list[str], words: str) -> None:
    server.faults = faults
    with pytest.raises(DataError, match=words) as caught:
        fetch(server, tmp_path)
    assert "after 4 attempts" in str(caught.value)
    assert not (tmp_path / "toy" / "a b.txt").exists()


def test_404_is_not_tried_again(server: Server, tmp_path: Path) -> None:
    server.faults = ["404"]
    with pytest.raises(DataError, match="404"):
        fetch(server, tmp_path)
    assert len(server.requests) == 1


def test_a_slow_server_meets_the_time_limit(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock costs 10 seconds: the third byte comes too late."""
    server.faults = ["slow"]
    clock, seen = itertools.count(0.0, 10.0), []

    def received(name: str, done: int, total: int) -> None:
        seen.append(done)
        server.wanted.release()

    monkeypatch.setattr(catalog, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(DataError, match="time limit"):
        fetch(server, tmp_path, timeout=25.0, retries=0, progress=received)
    assert seen == [1, 2, 3]


def test_a_server_that_stops_sending_is_given_up(server: Server, tmp_path: Path) -> None:
    """While it would wait for ever."""
    server.faults = ["stall"]
    with pytest.raises(DataError, match="stopped sending"):
        fetch(server, tmp_path, timeout=0.3, retries=0)
    assert not server.is_over.is_set() and (tmp_path / "toy" / ".a b.txt.part").stat().st_size == 1000


def test_nobody_answers(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no connection"):
        catalog.download("toy", tmp_path, base_url="http://127.0.0.1:9", retries=0)


def test_a_damaged_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "a b.txt").write_bytes(CONTENT[:-1] + b"?")
    assert (fetch(server, tmp_path) / "a b.txt").read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        fetch(server, tmp_path / "file")


def test_names_and_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="wordeval"):
        catalog.find("wordevall")
    with pytest.raises(InputError, match="mattmahoney"):
        catalog.download("text8", tmp_path)
    with pytest.raises(InputError, match="timeout"):
        catalog.download("wordeval", tmp_path, timeout=0)


def test_every_set_says_what_it_is_and_where() -> None:
    for name, one in catalog.CATALOG.items():
        assert one.name == name and one.what and one.license
        assert name.startswith(one.family) or one.family == "text"
        assert one.files or one.where, f"{name}: neither files nor an address"
        assert len({file.name for file in one.files}) == len(one.files)
        for file in one.files:
            assert file.address.startswith("https://") and len(file.sha256) == 64 and file.num_bytes > 0
    assert not any(catalog.CATALOG[name].files for name in ("ctr-criteo10k", "ctr-avazu10k", "rec-ml100k", "rec-ml1m"))


def test_local_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANY2VEC_DATA", raising=False)
    assert catalog.local_folder("wordeval") is None
    monkeypatch.setenv("ANY2VEC_DATA", str(tmp_path))
    assert "not on this machine" in done("data", "show", "wordeval")
    (tmp_path / "wordeval").mkdir()
    assert str(tmp_path / "wordeval") in done("data", "show", "wordeval").replace("\n", "").replace(" ", "")
    (tmp_path / "wordeval").rmdir()
    assert catalog.local_folder("wordeval") is None
    (tmp_path / "wordeval").mkdir()
    assert catalog.local_folder("wordeval") == tmp_path / "wordeval"
