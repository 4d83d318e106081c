"""A command whose subcommands are models: `any2vec train MODEL INPUT...`, and likewise estimate, plan and stream.

A model's flags are made when it is called; `any2vec train --help` lists models by task and imports none of them.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from any2vec.checks import did_you_mean, parse_toml
from any2vec.cli.options import out_option
from any2vec.cli.run.flags import of_others
from any2vec.errors import InputError
from any2vec.train.registry import models_of, tasks
from any2vec.train.task import CLASSES, Task, absent

_HELP_NAMES = {"help_option_names": ["--help", "-h"]}
Config = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file of options, model, input and out", show_default=False),
]
Inputs = Annotated[list[str] | None, typer.Argument(metavar="INPUT...", show_default=False)]
Out = Annotated[Path | None, out_option("folder of the result", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", help="show no progress")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object")]
Factory = Callable[[Task, str], Callable[..., Any]]
"""(task, model) -> the function behind its command"""
Sections = Mapping[str, Sequence[tuple[str, str]]]
"""heading -> (option or argument, its help)"""
_GENERAL = "Input and output"
_KINDS = {"int": "N", "float": "X", "str": "TEXT", "choice": "NAME"}
"""type of an option -> what stands behind it in a help"""
_WIDEST_PAGE, _WIDEST_NAME = 100, 22
"""characters of a help, and of its left column, at most"""


class ModelCommand(TyperCommand):
    """The command of one model; it says why it has not got a flag that others have."""

    task: Task
    group: ModelGroup

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Plain and dense: some fifty options read better without boxes."""
        found: list[Any] = sorted(self.get_params(ctx), key=lambda one: one.param_type_name != "argument")
        argument, *options = found
        sections = {_GENERAL: [(str(argument.metavar), self.task.input)]}
        shown = {str(option.name): option for option in options if not option.hidden}
        for name, option in shown.items():
            if not name.startswith("no_") or name[3:] not in shown:
                typed = ", ".join(sorted(option.opts, key=len)) + _kind(option, ctx)
                if f"no_{name}" in shown:
                    typed = f"--[no-]{name.replace('_', '-')}"
                heading = option.rich_help_panel or _GENERAL
                about = "show this help" if name == "help" else Text.from_markup(option.help or "", emoji=False).plain
                sections.setdefault(heading, []).append((typed, about))
        formatter.write(_page(f"{ctx.command_path} {argument.metavar} [OPTIONS]", str(self.help), sections))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return list(super().parse_args(ctx, args))
        except Exception as error:
            option = str(getattr(error, "option_name", ""))
            if reason := self.group.why_not(str(self.name), self.task, option):
                error.message, error.possibilities = reason, []  # type: ignore[attr-defined]
            raise


class ModelGroup(TyperGroup):
    """Lists the models of a command; makes the one that is called (abstract: `command`, `make`, `known`)."""

    command: ClassVar[str]
    make: ClassVar[Factory]
    known: ClassVar[Callable[[], dict[str, Task]]]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The models by task."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for model, task in type(self).known().items():
            sections.setdefault(_panel(task), []).append((model, task.about_model(model)))
        formatter.write(_page(f"{ctx.command_path} MODEL ...", str(self.help), sections))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(type(self).known())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        task = type(self).known().get(cmd_name)
        return task and TyperCommand(cmd_name, help=task.about_model(cmd_name), rich_help_panel=_panel(task))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """With --config, the file may name the model."""
        known = type(self).known()
        if (given := _value_of(args, "--model")) is not None:
            model, hint = (
                (given, "") if given in known else ("MODEL", f"; t{_no_model(given, list(known), self.command)[1:]}")
            )
            ctx.fail(f"The model comes first, without --model: any2vec {self.command} {model} INPUT{hint}")
        if args and args[0] not in (*known, "--help", "-h"):
            if (path := _value_of(args, "--config")) is not None:
                try:
                    args = [_model_of(Path(path), self.command), *args]
                except InputError as error:
                    ctx.fail(str(error))
            elif args[0].startswith("--"):
                ctx.fail(f"The model comes first, as in any2vec {self.command} {next(iter(known))} INPUT {args[0]}")
        return list(super().parse_args(ctx, args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = type(self).known()
        if args and args[0] not in known and (args[0] == "-" or not args[0].startswith("-")):
            ctx.fail(_wrong_model(args[0], list(known), self.command))
        name, stub, rest = super().resolve_command(ctx, args)
        return name, (stub if stub is None else self._made(known[str(name)], str(name))), rest

    def _made(self, task: Task, model: str) -> ModelCommand:
        single = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
        single.command(model, cls=ModelCommand, context_settings=_HELP_NAMES)(type(self).make(task, model))
        found = typer.main.get_command(single)
        assert isinstance(found, ModelCommand)
        found.task, found.group = task, self
        return found

    def why_not(self, model: str, task: Task, option: str) -> str | None:
        """Why a model's command has not got an option; None: no model's has it."""
        name = option.removeprefix("--").removeprefix("no-").replace("-", "_")
        if any(name in names for names in task.options_of(model).values()):
            return f"any2vec {self.command} is for one host: leave out {option}, or see any2vec plan"
        if any(name == item.name for group in CLASSES.values() for item in fields(group)):
            return absent(task, model, name)
        known, theirs = type(self).known(), []
        for other in known:
            if any(option in flag.opts for flag in self._made(known[other], other).params):
                theirs.append(other)
        return of_others(model, option, theirs)


def _page(usage: str, about: str, sections: Sections) -> str:
    """A help of two columns, without color: usage, what the command does, then each section."""
    width = max(40, min(shutil.get_terminal_size().columns, _WIDEST_PAGE))
    left = 2 + max(len(name) for rows in sections.values() for name, _ in rows if len(name) <= _WIDEST_NAME) + 2
    body = textwrap.TextWrapper(width, initial_indent=" " * left, subsequent_indent=" " * left, break_on_hyphens=False)
    lines = [f"Usage: {usage}", "", *(line for text in about.split("\n") for line in textwrap.wrap(text, width))]
    for heading, rows in sections.items():
        lines += ["", f"{heading}:"]
        for name, text in rows:
            first, *others = body.wrap(text) or [""]
            fits = len(name) <= _WIDEST_NAME
            lines += [f"  {name}".ljust(left) + first.lstrip()] if fits else [f"  {name}", first]
            lines += others
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _kind(option: Any, ctx: Any) -> str:
    """What follows an option: ` N`, ` PATH`, ...; nothing after a switch."""
    _, sign, kind = option.get_help_record(ctx)[0].partition(" <")
    kind = kind.removesuffix(">").removesuffix(" range")
    return f" {_KINDS.get(kind, kind.upper())}" if sign else ""


def _panel(task: Task) -> str:
    return task.title[:1].upper() + task.title[1:]


def _wrong_model(given: str, known: list[str], command: str) -> str:
    if "." in given or "/" in given or given == "-" or Path(given).exists():
        names = ", ".join(known)
        return f"The model comes before the input, as in any2vec {command} {known[0]} {given}; it is one of {names}"
    return _no_model(given, known, command)


def _no_model(given: str, known: list[str], command: str) -> str:
    if command in ("estimate", "plan"):
        for task in tasks().values():
            if given in task.models:
                return f"any2vec {command} is not for {given}: {task.why_not(given, command)}"
    return f"There is no model {given!r} here; {did_you_mean(given, sorted(known))}"


def _value_of(args: list[str], option: str) -> str | None:
    """What stands behind an option."""
    for at, word in enumerate(args):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option:
            return args[at + 1] if at + 1 < len(args) else ""
    return None


def _model_of(path: Path, command: str) -> str:
    """What a TOML file calls its model; where it cannot be read, the first model, whose command says why.

    Raises:
        InputError: it names none.
    """
    first = next(iter(models_of(command)))
    try:
        found = parse_toml(path.read_text("utf-8")).get("model")
    except (OSError, ValueError):
        return first
    if not isinstance(found, str):
        raise InputError(f'The config {path} names no model: add model = "{first}", or a model as the first argument')
    return found


def model_group(name: str, help: str, make: Factory, known: Callable[[], dict[str, Task]] | None = None) -> Any:
    """The click group of a command. known: model -> task, by default all that `name` trains."""
    listed = known or (lambda: models_of(name))
    own = {"command": name, "make": staticmethod(make), "known": staticmethod(listed)}
    group = typer.Typer(
        cls=type("Models", (ModelGroup,), own), name=name, help=help, no_args_is_help=True, add_completion=False,
        rich_markup_mode="rich", pretty_exceptions_enable=False, context_settings=_HELP_NAMES,
    )  # fmt: skip
    group.callback()(_nothing)
    return group


def _nothing() -> None:
    pass


def check_out(out: Path | None) -> Path:
    """The folder of the result.

    Raises:
        InputError: nobody said which.
    """
    if out is None:
        raise InputError("Say where the result goes: --out DIR.")
    return out
