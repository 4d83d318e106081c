"""`--config FILE.toml`: the same names as the flags; a flag on the command line wins."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from any2vec.cli.options import Flag
from any2vec.errors import DataError, InputError
from any2vec.train.registry import nearest_match


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
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"Cannot read the config {path}: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"The config {path} is not TOML: {error}.") from error
    where, values = f"In the config {path}", {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name in flags:
            values[name] = flags[name].checked(value, where)
        elif name in own:
            if not isinstance(value, own[name]) or (isinstance(value, bool) and own[name] is not bool):
                raise InputError(f"{where}: {name} has a value of the wrong type, {value!r}.")
            values[name] = value
        elif (reason := why_not(name)) is not None:
            raise InputError(f"{where}: {reason}")
        else:
            raise InputError(f"{where}: there is no option {key!r}; {nearest_match(name, [*flags, *own])}")
    return values
