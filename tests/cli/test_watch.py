"""The live view: what a run's folder tells, in the terminal and in a browser."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from any2vec import Embeddings
from any2vec.cli.app import app
from any2vec.cli.run import watch
from any2vec.data.io.folder_lock import FolderLock
from any2vec.errors import InputError
from any2vec.report.live import POINTS, LiveRun
from any2vec.report.live_server import LiveServer
from any2vec.train.progress import rotated_log
from browser import Browser


def record(words: int, **more: object) -> str:
    sources = {"a.log": {"lines": words // 10, "words_per_s": 5.0, "waiting": 3, "state": "ok"}}
    drift = {"virus": 0.5, "meme": None}
    about = {"seconds": words / 5, "words": words, "words_per_s": 5.0, "loss": 3.25, "sources": sources, "drift": drift}
    return json.dumps(about | more) + "\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "stream.json").write_text(json.dumps({"model": {"name": "skipgram", "dim": 8}, "summary": {"words": 20}}))
    (folder / "progress.jsonl").write_text(record(10) + record(20, staleness={"0": 3, "1": 1}))
    return folder


@contextmanager
def served(folder: Path, host: str = "127.0.0.1") -> Iterator[LiveServer]:
    with LiveServer(LiveRun(folder), host, 0) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join(10)
            assert not thread.is_alive()


def asked(address: str, host: str | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(address, headers={} if host is None else {"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_the_last_whole_record_is_shown(run: Path) -> None:
    with (run / "progress.jsonl").open("a") as file:
        file.write(record(30) + record(40)[:17])
    view = LiveRun(run).view()
    assert view.record["words"] == 30 and view.about["model"]["dim"] == 8
    assert view.curves["speed"] == [[2.0, 5.0], [4.0, 5.0], [6.0, 5.0]]


def test_a_run_that_ends_says_how_long_it_still_takes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    about = {"seconds": 30.0, "progress": 0.25, "epoch": 0, "epochs": 4, "loss": 1.0, "items": 10}
    (folder / "progress.jsonl").write_text(json.dumps(about) + "\n")
    with FolderLock(folder, "The run folder"):
        view = LiveRun(folder).view()
        assert view.state == "running" and view.seconds_left == 90.0 and not view.is_stream and not view.has_vectors
        shown = CliRunner().invoke(app, ["watch", str(folder), "--once"]).output
        assert "25 %, 90 s left" in shown
    (folder / "meta.json").touch()
    assert LiveRun(folder).view().seconds_left is None


def test_damaged_records_are_left_out_and_others_shown(run: Path) -> None:
    with (run / "progress.jsonl").open("ab") as file:
        file.write(b"{nonsense}\n[1]\n\xff\xfe\n" + b"[" * 100_000 + b"\n" + record(50).encode())
    (run / "run.json").write_text("[" * 100_000)
    assert LiveRun(run).view().record["words"] == 50


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_values_that_cannot_be_drawn_are_left_out(run: Path, odd: float) -> None:
    with (run / "progress.jsonl").open("a") as file:
        file.write(record(30, loss=odd, words_per_s=odd, checkpoint_age=odd) + record(40, seconds=odd, progress=odd))
        file.write(record(50, loss=odd, drift={"virus": odd}, sources={"a.log": {"words_per_s": odd}}))
    view = LiveRun(run).view()
    assert [value for _, value in view.curves["loss"]] == [3.25, 3.25]
    assert [second for second, _ in view.curves["speed"]] == [2.0, 4.0, 10.0]
    for options in (["--once"], ["--json"], []):
        assert CliRunner().invoke(app, ["watch", str(run), *options]).exit_code == 0


def test_a_browser_shows_a_record_without_figures(run: Path) -> None:
    with (run / "progress.jsonl").open("a") as file:
        odd = float("nan")
        file.write(record(30) + record(12_300, loss=odd, words_per_s=odd, checkpoint_age=odd, drift={"virus": odd}))
    with served(run) as server, Browser() as browser:
        browser.open(server.address)
        browser.wait("document.getElementById('tile-words') && document.querySelectorAll('#curves svg').length === 2")
        assert browser.read("document.getElementById('state').textContent") == "ended"


def test_a_log_of_any_length_makes_few_points_the_last_among_them(run: Path) -> None:
    (run / "progress.jsonl").write_text("".join(record(words) for words in range(10, 10 * (3 * POINTS + 2), 10)))
    points = LiveRun(run).view().curves["loss"]
    assert POINTS // 2 <= len(points) <= POINTS and points[-1] == [2.0 * (3 * POINTS + 1), 3.25]


def test_a_log_that_has_begun_anew_goes_on_from_the_one_before(run: Path) -> None:
    log = run / "progress.jsonl"
    log.rename(rotated_log(log))
    before = len(rotated_log(log).read_bytes().splitlines())
    log.write_text(record(70))
    view = LiveRun(run).view()
    assert view.record["words"] == 70 and len(view.curves["loss"]) == before + 1


def test_the_state_follows_the_lock_and_the_age_of_the_record(run: Path) -> None:
    live = LiveRun(run)
    assert live.view().state == "ended"
    lock = FolderLock(run, "The run folder")
    lock.acquire()
    try:
        assert live.view().state == "running"
        past = time.time() - 60
        os.utime(run / "progress.jsonl", (past, past))
        view = live.view()
        assert view.state == "silent" and view.age is not None and view.age > 50
        (run / "progress.jsonl").unlink()
        assert live.view().state == "waiting"
    finally:
        lock.release()


def test_a_run_that_was_stopped_has_not_ended(run: Path) -> None:
    (run / "stream.json").rename(run / "run.json")
    (run / "checkpoint.safetensors").touch()
    (run / "progress.jsonl").write_text(record(10, progress=0.204))
    assert LiveRun(run).view().state == "stopped"
    for options in (["--once"], []):
        found = CliRunner().invoke(app, ["watch", str(run), *options])
        assert found.exit_code == 0 and "stopped" in found.output
        assert ("at 20 %; --resume goes on" in found.output) == bool(options)
    assert LiveRun(run).view().state == "stopped"


def test_a_run_in_another_container_has_not_ended(run: Path) -> None:
    """Who looks does not see the process that has the folder."""
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--mount-proc", "--fork"]
    if shutil.which(apart[0]) is None or subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("needs namespaces of processes")
    with FolderLock(run, "The run folder"):
        command = [*apart, sys.executable, "-m", "any2vec", "watch", str(run), "--json"]
        assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["state"] == "running"


def test_a_run_that_was_killed_is_lost(run: Path) -> None:
    """There is neither a result nor a checkpoint; before its first record and behind it."""
    (run / "stream.json").rename(run / "run.json")
    assert LiveRun(run).view().state == "running"  # or its hosts are started again
    past = time.time() - 60
    os.utime(run / "progress.jsonl", (past, past))
    for is_logged in (True, False):
        if not is_logged:
            (run / "progress.jsonl").unlink()
        assert LiveRun(run).view().state == "lost"
        found = CliRunner().invoke(app, ["watch", str(run)])
        assert found.exit_code == 0 and "lost" in found.output
        assert "its process is gone" in CliRunner().invoke(app, ["watch", str(run), "--once"]).output


def test_a_stream_that_was_killed_can_go_on(run: Path) -> None:
    (run / "stream.json").write_text("{}")
    (run / "checkpoint.safetensors").touch()
    assert LiveRun(run).view().state == "stopped"


def test_a_result_without_its_log_has_ended(run: Path) -> None:
    (run / "stream.json").rename(run / "run.json")
    (run / "meta.json").touch()
    (run / "progress.jsonl").unlink()
    assert LiveRun(run).view().state == "ended"


def test_a_run_that_replaces_a_result_has_its_own_settings(run: Path) -> None:
    (run / "stream.json").rename(run / "run.json")
    (run / "run.new.json").write_text(json.dumps({"model": {"name": "cbow"}}))
    (run / "meta.json").touch()
    with FolderLock(run, "The run folder"):
        view = LiveRun(run).view()
        assert view.about == {"model": {"name": "cbow"}} and view.state == "waiting" and not view.record
        (run / "progress.new.jsonl").write_text(record(30))
        view = LiveRun(run).view()
        assert view.state == "running" and view.record["words"] == 30


def test_a_run_whose_folder_is_gone_is_lost(run: Path) -> None:
    live = LiveRun(run)
    shutil.rmtree(run)
    view = live.view()
    assert view.state == "lost" and view.name == "run" and not view.record


def test_folders_without_a_run_are_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="the --out of"):
            LiveRun(folder)


def test_plain_lines_say_how_a_run_ended(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    views = [LiveRun(run).view(), replace(LiveRun(run).view(), state="lost")]
    views[0] = replace(views[0], state="running")
    watch._announce(SimpleNamespace(view=lambda: views.pop(0)))
    assert [line.split("  ")[1] for line in capsys.readouterr().out.splitlines()] == ["running", "lost"]


def test_the_terminal_shows_sources_staleness_and_drift(run: Path) -> None:
    found = CliRunner().invoke(app, ["watch", str(run), "--once"], env={"COLUMNS": "100"})
    assert found.exit_code == 0
    for text in ("ended", "3.2500", "a.log", "75.0%", "virus", "new", "words/s"):
        assert text in found.output
    reported = json.loads(CliRunner().invoke(app, ["watch", str(run), "--json"]).stdout)
    assert reported["record"]["words"] == 20 and reported["state"] == "ended"


@pytest.mark.parametrize(
    "arguments", [["--port", "80"], ["--host", "0.0.0.0"], ["--web", "--once"], ["--web", "--json"]], ids=" ".join
)
def test_options_that_would_do_nothing_are_refused(run: Path, arguments: list[str]) -> None:
    found = CliRunner().invoke(app, ["watch", str(run), *arguments])
    assert found.exit_code == 2 and found.stdout == ""


def test_a_port_that_is_taken_is_reported(run: Path) -> None:
    with served(run) as server, pytest.raises(InputError, match="choose another"):
        LiveServer(LiveRun(run), "127.0.0.1", server.port)


def test_pages_of_other_sites_cannot_ask(run: Path) -> None:
    with served(run) as server:
        assert asked(server.address)[0] == 200
        assert asked(server.address + "state", "any2vec.example:80")[0] == 403
        assert asked(server.address + "state", f"localhost:{server.port}")[0] == 200
        assert asked(server.address + "else")[0] == 404


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost"])
def test_the_address_that_is_printed_answers(run: Path, host: str) -> None:
    with served(run, host) as server:
        assert host in server.address and not server.token
        assert asked(server.address + "state")[0] == 200
        assert asked(server.address + "state", "127.0.0.3")[0] == 403


def test_a_request_that_drips_in_is_ended(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.report.live_server.PATIENCE", 1.0)
    with served(run) as server, socket.create_connection(("127.0.0.1", server.port), 20) as slow:
        began = time.monotonic()
        slow.sendall(b"GET /state HTTP/1.0\r\n")
        with suppress(ConnectionError):
            for _ in range(100):
                slow.sendall(b"X: y\r\n")
                time.sleep(0.2)
                slow.settimeout(0.001)
                with suppress(TimeoutError):
                    if not slow.recv(1):
                        break
        assert 0.9 < time.monotonic() - began < 10


def test_a_request_that_is_none_is_answered(run: Path) -> None:
    with served(run) as server, socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(b"GET http://[ HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert connection.recv(99).startswith(b"HTTP/1.0 400 ")


def test_the_browser_is_told_what_to_run_and_that_nobody_may_frame_the_page(run: Path) -> None:
    policies = []
    with served(run) as server:
        for _ in range(2):
            with urllib.request.urlopen(server.address, timeout=20) as answer:
                policies.append(answer.headers["Content-Security-Policy"])
                nonce = policies[-1].split("'nonce-")[1].split("'")[0]
                text = answer.read().decode()
                assert text.count(f'<style nonce="{nonce}">') == text.count(f'<script nonce="{nonce}">') == 1
    assert "unsafe" not in policies[0] and "frame-ancestors 'none'" in policies[0] and policies[0] != policies[1]


def test_other_machines_need_the_token(run: Path) -> None:
    with served(run, "0.0.0.0") as server:
        own = f"http://127.0.0.1:{server.port}/"
        token = server.token
        near = ("x", token[:1], token[:-1], token[:-1] + ".", "." + token[1:], token + ".")  # no token has a point
        for query in ("", *(f"?token={wrong}" for wrong in near)):
            assert asked(own + "state" + query)[0] == 403
        assert asked(own + f"state?token={token}")[0] == 200


def test_neighbors_come_from_the_newest_snapshot(run: Path) -> None:
    with served(run) as server:
        assert b"error" in asked(server.address + "nearest?word=a")[1]
        rows = np.array([[1, 0], [1, 0.1], [0, 1]], np.float32)
        Embeddings(["a", "b", "c"], rows).save_into(run)
        found = json.loads(asked(server.address + "nearest?word=a")[1])
        assert [key for key, _ in found["neighbors"]] == ["b", "c"]
        assert "nearest spellings" in json.loads(asked(server.address + "nearest?word=A")[1])["error"]


def test_keys_of_clicks_that_never_occurred_are_no_neighbors(run: Path) -> None:
    rows = np.array([[1, 0], [1, 0.1], [0, 1]], np.float32)
    Embeddings(["a=1", "a=2", "a=3"], rows, None, [4, 0, 2], {"model": {"model": "deepfm"}}).save_into(run)
    with served(run) as server:
        assert [key for key, _ in server.nearest("a=1")["neighbors"]] == ["a=3"]


def test_a_browser_reads_a_number_that_changes(run: Path) -> None:
    with served(run) as server, Browser() as browser:
        browser.open(server.address)
        first = browser.wait(
            "document.getElementById('tile-words') && document.getElementById('tile-words').textContent"
        )
        assert first == "20" and "a.log" in browser.read("document.body.innerText")
        with (run / "progress.jsonl").open("a") as file:
            file.write(record(12_300))
        browser.wait("document.getElementById('tile-words').textContent === '12.3 k'")
        assert browser.read("document.querySelectorAll('#curves svg').length") == 2
        # Whatever a source is called, it is text.
        with (run / "progress.jsonl").open("a") as file:
            file.write(record(12_400, sources={"<img src=x onerror=alert(1)>": {"lines": 1}}))
        browser.wait("document.body.innerText.includes('<img src=x')")
        assert browser.read("document.querySelectorAll('img').length") == 0


def test_the_dashboard_follows_until_the_run_ends(run: Path) -> None:
    lock = FolderLock(run, "The run folder")
    lock.acquire()

    def go_on() -> None:
        with suppress(OSError), (run / "progress.jsonl").open("a") as file:
            file.write(record(777))
        lock.release()

    timer = threading.Timer(0.3, go_on)
    timer.start()
    found = CliRunner().invoke(app, ["watch", str(run)])
    timer.join()
    assert found.exit_code == 0 and "words 777" in found.output and "ended" in found.output.splitlines()[-1]


def test_a_log_that_goes_while_it_is_looked_at_is_no_error(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live, found = LiveRun(run), Path.is_file

    def gone(path: Path) -> bool:
        was_there = found(path)
        path.unlink(missing_ok=True)
        return was_there

    monkeypatch.setattr(Path, "is_file", gone)
    assert live.view().state in ("waiting", "ended")
    (run / "progress.jsonl").unlink(missing_ok=True)
    assert live.view().state == "ended"


def test_headings_of_sources_are_whole_at_80_columns(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("lines", "words", "duplicates", "words_per_s", "waiting", "bad", "reconnects")
    few = {"duplicates": 0, "waiting": 0, "bad": 3, "reconnects": 1}
    source = dict.fromkeys(names, 9_740_000) | few | {"state": "ended"}
    (run / "progress.jsonl").write_text(record(10, sources={"t.txt": source}))
    monkeypatch.setenv("COLUMNS", "80")
    said = CliRunner().invoke(app, ["watch", str(run), "--once"]).stdout
    heading = next(line for line in said.splitlines() if "source" in line)
    shown = ["source", "lines", "words", "twice", "words/s", "waiting", "bad", "retries", "state"]
    assert heading.split()[1:-1] == shown
