"""The tree of commands. A command's file, and what it imports, is loaded when the command is called, not before."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from any2vec._version import __version__
from any2vec.checks import did_you_mean
from any2vec.cli.output import EXIT_BAD_INPUT, EXIT_INTERRUPTED, complain, spell_all
from any2vec.errors import Any2VecError
from any2vec.signals import on_stops


class Entry(NamedTuple):
    """Where a command lives (a function of its own name, or a Typer `app`) and its line in `any2vec --help`."""

    module: str
    help: str
    panel: str


_RUNS, _RESULTS, _HOUSE = "Train", "Use and judge a result", "Data and machine"
COMMANDS: dict[str, Entry] = {
    "train": Entry("run.train", "Train vectors of words, graph nodes or entities, or a model of clicks.", _RUNS),
    "stream": Entry("run.train", "Train vectors of words on text that need not end, as it comes.", _RUNS),
    "estimate": Entry("run.plan", "Memory, disk and, of words and nodes, time of a run, before it starts.", _RUNS),
    "plan": Entry("run.plan", "Memory, bytes and modeled time of a run over hosts.", _RUNS),
    "walk": Entry("run.graph", "Write random walks of a graph, to train on later.", _RUNS),
    "split": Entry("run.graph", "Cut a graph into train edges, test edges and negatives.", _RUNS),
    "phrases": Entry("run.phrases", "Join words that belong together, such as new_york, in a text.", _RUNS),
    "dimension": Entry("results.evaluate", "How many numbers a vector should have, by the text alone.", _RUNS),
    "nearest": Entry("results.search", "The nearest neighbors of a word or node.", _RESULTS),
    "analogy": Entry("results.search", "A is to B as C is to ...?", _RESULTS),
    "predict": Entry("results.predict", "The missing part of triples, by a model of a knowledge graph.", _RESULTS),
    "embed": Entry("results.embed", "Vectors of documents, from those of their words.", _RESULTS),
    "score": Entry("results.score", "How likely clicks are, or the classes of nodes, by a trained model.", _RESULTS),
    "recommend": Entry("results.recommend", "The best items for users, or values of a column for clicks.", _RESULTS),
    "evaluate": Entry("results.evaluate", "Score similarity, analogy, PIP, nodes, links, triples, lists.", _RESULTS),
    "export": Entry("results.search", "Write vectors in the format of another tool.", _RESULTS),
    "serve": Entry("results.serve", "Answer over HTTP: neighbors, scores, predictions of runs.", _RESULTS),
    "watch": Entry("run.watch", "Follow a run: in the terminal, or as a page.", _RESULTS),
    "report": Entry("tools", "Write a run's page: curves, map, neighbors, scores.", _RESULTS),
    "compare": Entry("results.compare", "Runs side by side: settings that differ, figures, scores, curves.", _RESULTS),
    "demo": Entry("tools", "Train on real data that ships with Python; no download.", _HOUSE),
    "graph": Entry("run.attributed", "Graphs with features and classes of their nodes: build, prune, show.", _HOUSE),
    "data": Entry("data", "Known public data sets: show, get, plant.", _HOUSE),
    "check": Entry("tools", "Whether the files of a table larger than memory are sound.", _HOUSE),
    "doctor": Entry("tools", "Versions, cores, caches, and what is missing.", _HOUSE),
}

_HELP_NAMES = {"help_option_names": ["--help", "-h"]}


class LazyGroup(TyperGroup):
    """Lists commands from the table above; imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        return entry and TyperCommand(cmd_name, help=entry.help, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"There is no command {args[0]!r}; {did_you_mean(args[0], COMMANDS)}")
        name, light, rest = super().resolve_command(ctx, args)
        return name, load(str(name)) if light is not None else light, rest

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """A wrong flag or argument is answered like any other bad input: one sentence, exit code 2."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except typer.Abort:
            code = EXIT_INTERRUPTED
        except Any2VecError as error:  # before any command is reached: a package with a task that does not load
            if os.environ.get("ANY2VEC_DEBUG") == "1":
                raise
            complain(str(error))
            code = EXIT_BAD_INPUT
        except Exception as error:
            if not hasattr(error, "format_message"):  # click's own errors have it, inside Typer or beside it
                raise
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()  # type: ignore[attr-defined]
            else:
                complain(_usage(error))
            code = EXIT_BAD_INPUT
        sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Any) -> str:
    """Click's error for a wrong command line, and which `--help` shows the right one."""
    said = " ".join((_wrong_value(error) or error.format_message()).split()).rstrip(".")
    context = getattr(error, "ctx", None)
    is_asked = said.endswith("?")
    if context is None:
        return said if is_asked else f"{said}."
    return f"{said}{' See' if is_asked else '; see'} {context.command_path} --help."


def _wrong_value(error: Any) -> str:
    """What is wrong with the value of a flag, where the checker behind Typer (pydantic) says it in words of its own."""
    checker, parameter = error.__cause__, getattr(error, "param", None)
    if parameter is None or not callable(getattr(checker, "errors", None)):
        return ""
    first = checker.errors()[0]
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ").rstrip(".")
    _, is_choice, choices = message.rpartition(" is not one of ")
    expected = {"int_parsing": "a whole number", "float_parsing": "a number"}.get(first["type"], message)
    if is_choice:
        expected = "one of " + choices.replace("'", "")
    name = next((name for name in parameter.opts if name.startswith("--")), parameter.name)
    return f"{name} must be {expected}, got {str(first['input'])!r}"


def load(name: str) -> Any:
    """The click command `name`, with its module imported."""
    module = importlib.import_module(f"any2vec.cli.{COMMANDS[name].module}")
    attribute = getattr(module, name)
    if isinstance(attribute, typer.Typer):
        command = typer.main.get_command(attribute)
        command.name = name
        return command
    single = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    single.command(name, context_settings=_HELP_NAMES)(attribute)
    return typer.main.get_command(single)


app = typer.Typer(
    cls=LazyGroup,
    name="any2vec",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=_HELP_NAMES,
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"any2vec {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (also: ANY2VEC_DEBUG=1).")
    ] = False,
) -> None:
    """Fast embeddings of words, graph nodes, clicks, knowledge graphs and streams, on one machine or many."""
    if debug:
        os.environ["ANY2VEC_DEBUG"] = "1"


def _stop(signum: int, frame: FrameType | None) -> None:
    sys.unraisablehook = _pass_over
    raise KeyboardInterrupt


def _pass_over(unraisable: Any) -> None:
    """What could not be raised in a command that was stopped: destructors of half-made objects, which are no news.

    A stop that fell into a destructor, where Python drops it, is asked for again, by a signal that ends a wait, too.
    """
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        main, kill = threading.main_thread().ident, getattr(signal, "pthread_kill", None)
        again = partial(kill, main, signal.SIGINT) if kill else partial(signal.raise_signal, signal.SIGINT)
        threading.Timer(0.01, again).start()


def run() -> None:
    """Run the command line of this process. SIGTERM and SIGHUP unwind like Ctrl-C: no half-written file stays."""
    on_stops(_stop)
    spell_all()
    app()
