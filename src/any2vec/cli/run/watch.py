"""`any2vec watch`: how a run stands, in the terminal or as a page of a small web server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from any2vec.cli.output import AsJson, can_rewrite, columns, guarded, note, print_json, stdout_console
from any2vec.errors import InputError
from any2vec.units import duration, fraction, number, size, visible

if TYPE_CHECKING:
    from any2vec.report.live import View

EVERY = 1.0
"""seconds between two looks"""
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 32
"""columns of a curve"""
_COLORS = {
    "running": "green",
    "waiting": "yellow",
    "silent": "red",
    "ended": "cyan",
    "stopped": "yellow",
    "lost": "red",
}
_OVER = ("ended", "stopped", "lost")
_HEADINGS = {"words_per_s": "words/s", "duplicates": "twice", "reconnects": "retries"}
"""of sources, so short that a terminal of 80 columns breaks none"""
_MOST_ROWS = 12
"""of a table"""


@guarded
def watch(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The --out of a run, under way or ended.")],
    web: Annotated[bool, typer.Option("--web", help="Serve a page that follows the run, instead.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="Of the page; 0: any free one.  [default: 8484]", show_default=False
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            help="Address to serve on; others than this machine's own need the page's token.  [default: 127.0.0.1]",
            show_default=False,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show it once, and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Follow a run: loss, words/s of each source, queues, staleness, vocabulary, drift. Ctrl-C ends the watching."""
    from any2vec.report.live import LiveRun

    live = LiveRun(run)
    if not web and (port is not None or host is not None):
        raise InputError("--port and --host are the page's; add --web, or leave them out.")
    if web and (once or as_json):
        raise InputError("--web follows a run until it is stopped; leave out --once and --json.")
    if web:
        _serve(live, "127.0.0.1" if host is None else host, 8484 if port is None else port)
    elif as_json:
        print_json(live.view().as_dict())
    else:
        _follow(live, once)


def _follow(live: Any, once: bool) -> None:
    """On a terminal a picture that changes; elsewhere a line now and then."""
    console = stdout_console()
    if once:
        console.print(dashboard(live.view()))
        return
    try:
        if not can_rewrite(console):
            _announce(live)
            return
        with Live(dashboard(live.view()), console=console, refresh_per_second=4, screen=False) as screen:
            while True:
                view = live.view()
                screen.update(dashboard(view))
                if view.state in _OVER:
                    return
                time.sleep(EVERY)
    except KeyboardInterrupt:
        return


def _announce(live: Any) -> None:
    """A plain line for each new record, until the run ends."""
    last = None
    while True:
        view = live.view()
        if (view.record, view.state in _OVER) != last:
            last = view.record, view.state in _OVER
            figures = "  ".join(f"{name} {text}" for name, text in tiles(view))
            print(f"{visible(view.name)}  {view.state}  {figures}", flush=True)
        if view.state in _OVER:
            return
        time.sleep(EVERY)


def _serve(live: Any, host: str, port: int) -> None:
    from any2vec.report.live_server import LiveServer

    with LiveServer(live, host, port) as server:
        note(f"The run is at {server.address} (Ctrl-C ends the page, not the run)")
        server.serve()


def tiles(view: View) -> list[tuple[str, str]]:
    """The figures that one looks for first."""
    record, found = view.record, []
    for name, fields, spelled in (
        ("words", ("words",), number), ("items", ("items",), number),
        ("words/s", ("words_per_s",), number), ("items/s", ("items_per_s",), number),
        ("loss", ("loss",), fraction), ("vocabulary", ("vocabulary",), number), ("types", ("types",), number),
        ("in queues", ("queue_bytes",), size), ("memory", ("rss_bytes",), size),
        ("time", ("seconds",), duration), ("checkpoint", ("checkpoint_age",), duration),
    ):  # fmt: skip
        value = next((record[field] for field in fields if record.get(field) is not None), None)
        if isinstance(value, int | float):
            found.append((name, spelled(value)))
    return found


def dashboard(view: View) -> RenderableType:
    """All there is to see, for a terminal of 80 columns or more."""
    head = Text.assemble(
        (visible(view.name), "bold"), "  ", (view.state, _COLORS[view.state]),
        (_remark(view), "dim"),
    )  # fmt: skip
    boxes = [Text.assemble((name, "dim"), "\n", (text, "bold")) for name, text in tiles(view)]
    parts: list[RenderableType] = [head, Columns(boxes, padding=(0, 3), equal=True)] if boxes else [head]
    if not view.record:
        parts.append(Text("No record yet.", style="dim"))
    for name, points in view.curves.items():
        if len(points) > 1:
            parts.append(_curve(name, points))
    parts += [part for part in (_sources(view), _staleness(view), _drift(view)) if part is not None]
    return Panel(Group(*parts), border_style="dim")


def _remark(view: View) -> str:
    """What there is to say of its state."""
    if view.state == "silent":
        return f"  last heard of {duration(view.age)} ago"
    if view.state == "lost":
        return "  its process is gone, and left neither a result nor a checkpoint"
    share = view.record.get("progress")
    if view.state == "stopped" and isinstance(share, int | float):
        return f"  at {100 * share:.0f} %; --resume goes on"
    if view.seconds_left is not None and isinstance(share, int | float):
        return f"  {100 * share:.0f} %, {duration(view.seconds_left)} left"
    return ""


def _curve(name: str, points: Sequence[Sequence[float]]) -> Text:
    """Its values as a row of bars over the time of training: of a size from 0 on, of a loss from its smallest."""
    values = [value for _, value in points]
    shown = [values[int(place * len(values) / _WIDTH)] for place in range(_WIDTH)] if len(values) > _WIDTH else values
    low, high = min(shown) if name == "loss" else 0.0, max(shown)
    span = max(high - low, 0.02 * abs(high)) or 1.0
    bars = "".join(_BARS[min(7, int(8 * (value - low) / span))] for value in shown)
    spelled = size if name in ("queue", "memory") else number
    about = f"  {spelled(min(shown))} to {spelled(high)}, {duration(points[0][0])} to {duration(points[-1][0])}"
    return Text.assemble((f"{name:<11}", "cyan"), bars, (about, "dim"))


def _sources(view: View) -> RenderableType | None:
    sources = view.record.get("sources")
    if not isinstance(sources, dict) or not sources:
        return None
    names = list(dict.fromkeys(key for details in sources.values() for key in details))
    rows = [
        [source, *(_cell(details.get(name)) for name in names)]
        for source, details in list(sources.items())[:_MOST_ROWS]
    ]
    return columns("", ["source", *(_HEADINGS.get(name, name.replace("_", " ")) for name in names)], rows)


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value or "-")


def _staleness(view: View) -> RenderableType | None:
    counts = view.record.get("staleness")
    if not isinstance(counts, dict) or not (total := sum(counts.values())):
        return None
    shown = sorted(counts.items(), key=lambda item: int(item[0]))[:_MOST_ROWS]
    rows = [(name, "█" * max(1, round(20 * count / total)), f"{count / total:.1%}") for name, count in shown if count]
    return columns("", ["staleness", "batches", "share"], rows, left=2)


def _drift(view: View) -> RenderableType | None:
    drift = view.record.get("drift")
    if not isinstance(drift, dict) or not drift:
        return None
    rows = [(word, "new" if value is None else f"{value:.3f}") for word, value in list(drift.items())[:_MOST_ROWS]]
    return columns("", ["word", "cosine with the snapshot before"], rows)
