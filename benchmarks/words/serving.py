"""Row about `any2vec serve`: neighbors over HTTP on the loopback, beside FastAPI and usearch joined by hand."""

from __future__ import annotations

import json
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, script_of
from benchmarks.table import Measure, NotMeasuredError, Reading, Row, RowError

ROWS_OF_TABLE, DIM, NEIGHBORS, CONNECTIONS = 400_000, 100, 10, 4
REQUESTS, REPEATS, MALFORMED = 4000, 3, 1000
_PATIENCE = 1800.0
"""seconds for a server to load and to make its index"""
Body = Callable[[str], dict[str, Any]]


def serve(bench: Bench) -> list[Reading]:
    """Requests/s and the 99th percentile of both servers in turn; what any2vec's says to requests that are none."""
    for name in ("fastapi", "uvicorn"):
        if find_spec(name) is None:
            raise NotMeasuredError(f"{name} is not installed: the extra serve")
    rows = 2000 if bench.tiny else 20_000 if bench.quick else ROWS_OF_TABLE
    vectors, index = bench.folder / f"served-{rows}", bench.folder / f"served-{rows}.usearch"
    _make(vectors, index, rows)
    keys = [f"word{row}" for row in random.Random(1).sample(range(rows), 1000)]
    requests, ours, theirs = (200 if bench.quick else REQUESTS), [], []
    with _any2vec(bench, vectors) as own, _plain(index) as other:
        for _ in range(1 if bench.quick else REPEATS):
            ours.append(_load(own, "/runs/words/nearest", lambda key: {"keys": [key], "k": NEIGHBORS}, keys, requests))
            theirs.append(_load(other, "/nearest", lambda key: {"key": key, "k": NEIGHBORS}, keys, requests))
        refused = sum(_status(own, data) // 100 == 4 for data in _malformed(MALFORMED))
    bench.runs["any2vec"], bench.runs["plain"] = ours, theirs
    ratios = [mine["per_s"] / peer["per_s"] for mine, peer in zip(ours, theirs, strict=True)]
    speed, plain = (statistics.median(one["per_s"] for one in side) for side in (ours, theirs))
    late, plain_late = (statistics.median(one["p99_ms"] for one in side) for side in (ours, theirs))
    return [
        Reading(value=statistics.median(ratios), text=f"{speed:,.0f} / {plain:,.0f} requests/s, {rows:,} vectors"),
        Reading(value=late, text=f"{late:.1f} / {plain_late:.1f} ms"),
        Reading(value=refused, text=f"{refused:,} of {MALFORMED:,}"),
    ]


def _make(vectors: Path, index: Path, rows: int) -> None:
    """Random vectors with the neighbors that clusters have, and their index."""
    if vectors.exists() and index.exists():
        return
    import numpy as np

    from any2vec.embeddings import Embeddings

    rng = np.random.default_rng(1)
    center_CD = rng.standard_normal((1000, DIM)).astype(np.float32)
    vector_VD = center_CD[rng.integers(0, 1000, rows)] + rng.standard_normal((rows, DIM)).astype(np.float32)
    embeddings = Embeddings([f"word{row}" for row in range(rows)], vector_VD)
    embeddings.save(vectors, format="folder", overwrite=True)
    embeddings.save(index, overwrite=True, dtype="float16")


@contextmanager
def _any2vec(bench: Bench, vectors: Path) -> Iterator[int]:
    """A server; its port."""
    with bench.job(("serve", f"words={vectors}", "--port", 0, "--approximate")) as (job, errors):
        end = time.monotonic() + _PATIENCE
        while not (said := re.search(r"at http://127\.0\.0\.1:(\d+)", errors.read_text())):
            if job.poll() is not None or time.monotonic() > end:
                raise RowError(f"the server does not start: {errors.read_text()[-200:]}")
            time.sleep(0.1)
        try:
            yield int(said[1])
        finally:
            job.terminate()  # it says at its end what ran in it, and is killed if it does not come to one
            with suppress(subprocess.TimeoutExpired):
                job.wait(30)


@contextmanager
def _plain(index: Path) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    keys = index.with_suffix(".vocabulary.tsv")
    server = subprocess.Popen([sys.executable, script_of("usearch_server.py"), str(keys), str(index), str(port)])
    try:
        end = time.monotonic() + _PATIENCE
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if server.poll() is not None or time.monotonic() > end:
                raise RowError("the plain server does not start")
            time.sleep(0.1)
        yield port
    finally:
        server.kill()
        server.wait()


def _load(port: int, path: str, body: Body, keys: list[str], requests: int) -> dict[str, float]:
    """Requests over some connections that stay open, each waiting for its answer."""

    def work(number: int) -> list[float]:
        line, took = HTTPConnection("127.0.0.1", port, timeout=60), []
        for at in range(requests // CONNECTIONS):
            text = json.dumps(body(keys[(at * CONNECTIONS + number) % len(keys)]))
            began = time.perf_counter()
            line.request("POST", path, text, {"Content-Type": "application/json"})
            answer = line.getresponse()
            answer.read()
            took.append(time.perf_counter() - began)
            if answer.status != 200:
                raise RowError(f"a request was answered {answer.status}")
        line.close()
        return took

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(work, range(CONNECTIONS)))  # what is made at the first request
        began = time.perf_counter()
        took = sorted(seconds for part in pool.map(work, range(CONNECTIONS)) for seconds in part)
        seconds = time.perf_counter() - began
    return {"per_s": len(took) / seconds, "p99_ms": 1e3 * took[int(0.99 * len(took))]}


def _malformed(count: int) -> Iterator[bytes]:
    """Requests that none should answer: bytes, cut or foreign JSON, other paths, methods and sizes."""
    rng, good = random.Random(1), b'{"keys": ["word1"], "k": 5}'
    for number in range(count):
        method, path, body = "POST", "/runs/words/nearest", good
        kind = number % 6
        if kind == 0:
            yield rng.randbytes(rng.randrange(1, 200)).replace(b"\n", b".") + b"\r\n\r\n"
            continue
        if kind == 1:
            body = good[: rng.randrange(len(good))]
        elif kind == 2:
            body = good.replace(b"5", rng.choice([b"-1", b"1e9", b'"5"', b"null", b"0", b"[]", b"NaN", b"10000000"]))
        elif kind == 3:
            path += rng.choice(["x", "/", "/%00", "/../.."]) * rng.randrange(1, 20)
        elif kind == 4:
            method = rng.choice(["PUT", "GET", "DELETE", "TRACE", "ODD"])
        else:
            body = rng.choice([b"x" * (2 << 20), rng.randbytes(50), b"[" * 5000, b'{"keys": [1.5]}', b'{"colour": 1}'])
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        yield f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _status(port: int, data: bytes) -> int:
    """Of the answer to these bytes; 0: there is none."""
    with suppress(OSError, ValueError, HTTPException), socket.create_connection(("127.0.0.1", port), 30) as line:
        with suppress(ConnectionError):  # refused by its head, before all is sent
            line.sendall(data)
        return int(line.recv(64).split()[1])
    return 0


ROWS = (
    Row(
        name="serve",
        measures=(
            Measure(
                name="requests/s of nearest over 400,000 vectors, loopback, 4 connections, beside a plain script of "
                "FastAPI and usearch",
                relation="",
            ),
            Measure(name="99th percentile of the answers' time, beside the script's", relation=""),
            Measure(name="malformed requests that are answered 4xx, of 1,000", relation=">=", target=MALFORMED),
        ),
        run=serve,
        minutes=8,
    ),
)
