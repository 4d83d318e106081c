"""Rows about links and time: what travels over real and emulated links, and what hosts gain and pay on one machine."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.machine.namespaces import BURST, Network, last_line, network, wait_for
from benchmarks.table import Measure, Reading, Row, RowError, ratio_reading
from benchmarks.words.text import EPOCHS, MODEL, RATE, warm_up

HOSTS = 4
RATE_BITS = 50_000_000
SCHEMES = ("pull-opt", "rep-opt", "rep-base")
"""in the order of wall time that is promised"""
LINK_TEXT_BYTES = 12_000_000
LINK_ROUNDS = 6
LINK = "100Mbit,1ms"
PAIRS = 3


def link_bound(bench: Bench) -> list[Reading]:
    """Wall time of the same run by three schemes over capped links; bytes counted against what the kernel counted."""
    text = _part(bench)
    _encode(bench, text)
    found = {}
    with network(HOSTS, f"{RATE_BITS // 1_000_000}mbit") as net:
        goodput = net.goodput()
        bench.runs["tbf"] = {"rate": RATE_BITS, "burst": BURST, "goodput": goodput, "ends": "both of each veth"}
        for scheme in SCHEMES[::2] if bench.quick else SCHEMES:
            found[scheme] = _over_links(bench, net, text, scheme)
            bench.runs[scheme] = found[scheme]
    seconds = [run["train_seconds"] for run in found.values()]
    order = max(before / after for before, after in itertools.pairwise(seconds))
    shown = " < ".join(f"{scheme} {run['train_seconds']:.1f} s" for scheme, run in found.items())
    over = [run["link_bytes"] / run["counted_bytes"] - 1 for run in found.values()]
    sizes = ", ".join(
        f"{scheme} {run['link_bytes'] / 1e6:.1f} / {run['counted_bytes'] / 1e6:.1f} MB" for scheme, run in found.items()
    )
    return [
        Reading(
            value=order,
            text=f"{shown}; training at tbf {RATE_BITS / 1e6:g} Mbit/s, measured goodput {goodput / 1e6:.1f} Mbit/s",
        ),
        Reading(value=max(map(abs, over)), text=f"{min(over):+.1%} to {max(over):+.1%}: on the link / counted {sizes}"),
    ]


def delaying_link(bench: Bench) -> list[Reading]:
    """The worst |measured / modeled - 1| of the agreements of logical hosts over an emulated link."""
    text = _part(bench)
    warm_up(bench, "skipgram")
    worst, shown = [], []
    for scheme in SCHEMES[:1] if bench.quick else SCHEMES:
        run = bench.ours("any2vec_link.py", "--text", text, "--hosts", HOSTS, "--link", LINK, "--scheme", scheme).result
        bench.runs[scheme] = run
        # Modeled: bytes by the link's model, and what the same agreements take without a link.
        ratio = run["measured"] / run["modeled"]
        worst.append(abs(ratio - 1))
        shown.append(f"{scheme} {ratio - 1:+.1%} ({run['measured']:.2f} / {run['modeled']:.2f} s a round)")
    return [Reading(value=max(worst), text="; ".join(shown))]


def two_hosts(bench: Bench) -> list[Reading]:
    """words/s of two processes over one host, one thread each, in alternating pairs."""
    pairs = _pairs(bench)
    two, one = ([side[which]["items_per_s"] for side in pairs] for which in ("two", "one"))
    bench.runs["words_per_s"] = {"two hosts": two, "one host": one}
    return [ratio_reading(two, one, "words/s", peer="one host")]


def sync_cost(bench: Bench) -> list[Reading]:
    """Share of the training time that two hosts spend in agreements, waiting for each other included."""
    shares = [pair["two"]["agree_share"] for pair in _pairs(bench)]
    bench.runs["agree_share"] = shares
    middle = statistics.median(shares)
    rounds = _pairs(bench)[0]["two"]["rounds_per_epoch"]
    return [
        Reading(
            value=middle,
            text=f"{middle:.1%} ({min(shares):.1%}–{max(shares):.1%}, {len(shares)} runs), {rounds} rounds an epoch",
        )
    ]


def _pairs(bench: Bench) -> list[dict[str, dict[str, Any]]]:
    """Runs of two hosts and of one, alternating."""

    def make() -> list[dict[str, dict[str, Any]]]:
        warm_up(bench, "skipgram")
        _encode(bench, bench.words())
        pairs = []
        for seed in range(1, 2 if bench.quick else PAIRS + 1):
            pairs.append({"two": _train(bench, seed, "--hosts", 2), "one": _train(bench, seed)})
        return pairs

    found: list[dict[str, dict[str, Any]]] = bench.once("two hosts over one", make)
    return found


def _train(bench: Bench, seed: int, *more: object) -> dict[str, Any]:
    return bench.any2vec(
        "train", "skipgram", bench.words(), "--out", bench.scratch("hosts"), "--overwrite", *MODEL, *RATE,
        "--epochs", 1 if bench.quick else EPOCHS, "--threads", 1, "--seed", seed, *more,
    ).result  # fmt: skip


def _over_links(bench: Bench, net: Network, text: Path, scheme: str) -> dict[str, Any]:
    """One run on all hosts of a network."""
    arguments = [
        "train", "skipgram", text, "--out", bench.scratch("hosts-links"), "--overwrite", *MODEL, *RATE,
        "--epochs", 1, "--threads", 1, "--scheme", scheme, "--rounds-per-epoch", 2 if bench.quick else LINK_ROUNDS,
        "--json", "--quiet",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{host}.txt" for host in range(net.hosts)]
        errors, out = [path.open("w") for path in paths], (Path(folder) / "out.json").open("w+")
        before = net.sent()
        processes = net.start(arguments, errors, out, {"ANY2VEC_CACHE": str(bench.cache)})
        try:
            codes = wait_for(processes, 1200)
        finally:
            _end(processes)
        link_bytes = sum(net.sent()) - sum(before)
        for file in errors:
            file.close()
        if any(codes):
            raise RowError(f"hosts in namespaces ended with {codes}: {last_line(paths[_first_bad(codes)])}")
        out.seek(0)
        summary: dict[str, Any] = json.loads(out.read())
        out.close()
    kept = {name: summary[name] for name in ("train_seconds", "agree_seconds", "bytes_by_kind", "rounds", "rows")}
    return kept | {"link_bytes": link_bytes, "counted_bytes": sum(summary["bytes_by_kind"].values())}


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def _first_bad(codes: Sequence[int | None]) -> int:
    return next(host for host, code in enumerate(codes) if code != 0)


def _encode(bench: Bench, text: Path) -> None:
    """Let the text be in any2vec's cache, so that no host reads it while others wait."""
    from any2vec.data.text.text import encode_text

    bench.once(("encoded", text), lambda: encode_text(str(text), cache_dir=bench.cache))


def _part(bench: Bench) -> Path:
    """The first part of the corpus."""
    size = 600_000 if bench.quick else LINK_TEXT_BYTES

    def write(target: Path) -> None:
        with bench.words().open("rb") as text:
            target.write_bytes(text.read(size).rsplit(b"\n", 1)[0] + b"\n")

    return bench.made(f"enwiki2015.first-{size}.txt", write)


ROWS = (
    Row(
        name="link-bound",
        measures=(
            Measure(
                name="4 hosts in network namespaces, 50 Mbit/s: worst ratio of neighbors in the order of time",
                relation="<=", target=1, unit="x", wording="Pull-Opt < Rep-Opt < Base",
            ),
            Measure(
                name="bytes on the links (headers, acknowledgements, signs of life) over those counted, less one",
                relation="<=", target=0.1, wording="≤ 10 % of headers",
            ),
        ),
        run=link_bound,
        minutes=5,
    ),
    Row(
        name="delaying-link",
        measures=(
            Measure(
                name=f"agreement of {HOSTS} logical hosts over an emulated {LINK}: time off the modeled",
                relation="<=", target=0.1, wording="±10 %",
            ),
        ),
        run=delaying_link,
        minutes=3,
    ),
    Row(
        name="two-hosts",
        measures=(Measure(name="2 processes, 1 thread each, over one host", relation=">=", target=1.7, unit="x"),),
        run=two_hosts,
        minutes=6,
    ),
    Row(
        name="sync-cost",
        measures=(
            Measure(name="share of time in agreement, 2 hosts", relation="<=", target=0.1, wording="≤ 10 %"),
        ),
        run=sync_cost,
        minutes=1,
    ),
)  # fmt: skip
