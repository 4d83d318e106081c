"""Flags and TOML keys made from the fields of config dataclasses: one list, which lives beside what it configures."""

from __future__ import annotations

import ast
import enum
import inspect
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from rich.markup import escape

from any2vec.checks import did_you_mean, parse_toml
from any2vec.errors import DataError, InputError


@dataclass(frozen=True, slots=True)
class Flag:
    """One option of the command line, and the TOML key of the same name."""

    name: str
    """as in Python and in TOML; the flag has `-` for `_`"""
    kind: type
    """bool, int, float, str or Path"""
    choices: tuple[str, ...]
    """legal strings; () when free"""
    nullable: bool
    help: str
    defaults: Mapping[str, Any]
    """default value by owner (a model's name, `text`, `graph`, `run`)"""
    panel: str
    is_hidden: bool = False
    """whether help leaves it out"""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    def parameter(self) -> inspect.Parameter:
        """The Typer parameter; its own default is always None (not given), so that a TOML file can speak."""
        kind: Any = _choice(self.name, self.choices) if self.choices else self.kind
        said: Any = {"help": self._help(), "rich_help_panel": self.panel, "show_default": False}
        if self.kind is Path:
            option = path_option(self.flag, hidden=self.is_hidden, **said)
        else:
            metavar = "<choice>" if self.choices else None  # the help names them; a long column would squeeze it
            option = typer.Option(self.flag, hidden=self.is_hidden, metavar=metavar, **said)
        return _parameter(self.name, kind, option)

    def negative(self) -> inspect.Parameter:
        """`--no-NAME` of a bool, so that a flag can undo a TOML file; shown where it is more than the default."""
        option = typer.Option(
            f"--no-{self.flag[2:]}",
            help=f"not {self.flag}",
            rich_help_panel=self.panel,
            show_default=False,
            hidden=self.is_hidden or (not self.nullable and True not in self.defaults.values()),
        )
        return _parameter("no_" + self.name, bool, option)

    def _help(self) -> str:
        owners: dict[str, dict[str, None]] = {}
        for owner, value in self.defaults.items():
            owners.setdefault(_spelled(value), {})[owner] = None
        said = next(iter(owners))
        if len(owners) > 1:
            said = ", ".join(f"{value or 'none'} for {' and '.join(names)}" for value, names in owners.items())
        text = self.help.rstrip(".") + (f" [default {said}]" if said and "default" not in self.help else "")
        return escape(f"{' | '.join(self.choices)}; {text}" if self.choices else text)

    def checked(self, value: Any, where: str) -> Any:
        """`value` of a TOML file as this flag's type, or InputError."""
        if value is None and self.nullable:
            return None
        text = (str, int) if any(isinstance(default, int) for default in self.defaults.values()) else str
        right: Any = {bool: bool, int: int, float: (int, float), str: text, Path: str}[self.kind]
        if not isinstance(value, right) or (isinstance(value, bool) and self.kind is not bool):
            expected = {bool: "true or false", int: "a whole number", float: "a number"}.get(self.kind, "a string")
            raise InputError(f"{where}: {self.name} must be {expected}, got {value!r}.")
        if self.choices and value not in self.choices:
            raise InputError(f"{where}: {self.name} must be one of {', '.join(self.choices)}, got {value!r}.")
        if self.kind is Path and not value:
            raise InputError(f"{where}: {self.name} is empty; give a path, or leave it out.")
        return self.kind(value)


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _choice(name: str, choices: tuple[str, ...]) -> Any:
    return enum.Enum(name, {choice: choice for choice in choices}, type=str)


def _spelled(value: Any) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    return f"{value:g}" if isinstance(value, float) else str(value)


def flags_of(owners: Mapping[str, type], panels: Mapping[str, str]) -> dict[str, Flag]:
    """The flags of several config dataclasses, by name; a field that several own (`seed`) is one flag.

    owners: name of the owner -> dataclass; panels: name of the owner -> heading in `--help` (the first owner's counts).
    """
    found: dict[str, Flag] = {}
    for owner, config in owners.items():
        hints, docs = get_type_hints(config), field_docs(config)
        for item in fields(config):
            if not item.init or item.metadata.get("flag") is False:
                continue
            kind, choices, nullable = _kind(hints[item.name], f"{config.__name__}.{item.name}")
            default = item.default if item.default is not MISSING else None
            known = found.get(item.name)
            if known is not None and known.kind is not kind:
                raise TypeError(f"{config.__name__}.{item.name} is {kind.__name__}, elsewhere {known.kind.__name__}")
            found[item.name] = Flag(
                item.name,
                kind,
                known.choices if known else choices,
                nullable or bool(known and known.nullable),
                known.help if known else docs.get(item.name, ""),
                {**(known.defaults if known else {}), owner: default},
                known.panel if known else panels[owner],
            )
    return found


def _kind(hint: Any, name: str) -> tuple[type, tuple[str, ...], bool]:
    nullable = False
    if get_origin(hint) in (Union, types.UnionType):
        inner = [part for part in get_args(hint) if part is not type(None)]
        nullable = len(inner) < len(get_args(hint))
        if set(inner) == {str, Path} or set(inner) == {int, float}:
            inner = [Path if str in inner else float]
        elif set(inner) == {int, str}:
            inner = [str]
        if len(inner) != 1:
            raise TypeError(f"no flag can be made of {name}: {hint}")
        hint = inner[0]
    if get_origin(hint) is Literal:
        return str, tuple(get_args(hint)), nullable
    if hint in (bool, int, float, str, Path):
        return hint, (), nullable
    raise TypeError(f"no flag can be made of {name}: {hint}")


@cache
def field_docs(config: type) -> dict[str, str]:
    """The docstring under each field of a dataclass, its bases' too, on one line."""
    docs: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if base.__module__ == "builtins":
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for item, below in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(item, ast.AnnAssign)
                and isinstance(item.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                docs[item.target.id] = " ".join(below.value.value.split())
    return docs


def path_option(*flags: str, what: str = "file or folder", no: tuple[str, ...] = ("",), **more: Any) -> Any:
    """An option that takes a path. no: texts that are none; the system takes an empty one for the current folder."""

    def place(text: str) -> Path:
        if text in no:
            raise typer.BadParameter(f"it must name a {what}, got {text!r}")
        return Path(text)

    return typer.Option(*flags, parser=place, metavar="PATH", **more)


def unset_option(*flags: str, help: str, default: str, **more: Any) -> Any:
    """A flag that does not always apply: None says that it was not given, and its help what then holds."""
    return typer.Option(*flags, help=rf"{help} \[default {default}]", show_default=False, **more)


def out_option(help: str, what: str = "folder", **more: Any) -> Any:
    """`--out`, where a result goes: a new file or folder, for neither nothing nor standard output is one."""
    return path_option("--out", "-o", what=what, no=("", "-"), help=help, **more)


def with_flags(function: Callable[..., Any], flags: Mapping[str, Flag]) -> Callable[..., Any]:
    """`function(own..., **values)` with one keyword-only parameter per flag in place of `**values`, as Typer reads it.

    `values` then holds the flags that were given on the command line, and no others.
    """
    own = [
        parameter
        for parameter in inspect.signature(function, eval_str=True).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]

    switches = {"no_" + name: name for name, flag in flags.items() if flag.kind is bool}

    def called(**values: Any) -> Any:
        given = {name: values.pop(name) for name in list(values) if name not in flags and name not in switches}
        for name, value in values.items():
            if value is not None:
                if name in switches and values.get(switches[name]) is not None:
                    flag = flags[switches[name]].flag
                    raise InputError(f"{flag} and {flag.replace('--', '--no-', 1)} contradict each other; give one.")
                given[switches.get(name, name)] = False if name in switches else _unwrapped(value)
        return function(**given)

    parameters = list(own)
    for flag in flags.values():
        parameters += [flag.parameter(), flag.negative()] if flag.kind is bool else [flag.parameter()]
    called.__name__, called.__doc__, called.__module__ = function.__name__, function.__doc__, function.__module__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _unwrapped(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def read_config(
    path: Path, flags: Mapping[str, Flag], own: Mapping[str, type | tuple[type, ...]],
    why_not: Callable[[str], str | None] = lambda key: None,
) -> dict[str, Any]:  # fmt: skip
    """The keys and values of a TOML file, checked.

    flags: the flags that the file may set; own: further keys (`model`, `input`, ...) and their TOML types; why_not: a
    sentence for a key that is an option elsewhere.
    `-` and `_` are the same in a key. Raises InputError (unknown key, wrong type), DataError (not readable as TOML).
    """
    try:
        content = parse_toml(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"Cannot read the config {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise DataError(f"The config {path} is not TOML: {error}.") from error
    where, values = f"In the config {path}", {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name in values:
            raise InputError(f"{where}: {name} stands there twice, with - and with _; leave one out.")
        if name in flags:
            values[name] = flags[name].checked(value, where)
        elif name in own:
            if not isinstance(value, own[name]) or (isinstance(value, bool) and own[name] is not bool):
                raise InputError(f"{where}: {name} has a value of the wrong type, {value!r}.")
            values[name] = value
        elif (reason := why_not(name)) is not None:
            raise InputError(f"{where}: {reason}")
        else:
            raise InputError(
                f"{where}: there is no option {key!r}; {did_you_mean(name, [*flags, *own], 'see --help.')}"
            )
    return values
