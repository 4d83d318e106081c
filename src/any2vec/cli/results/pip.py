"""PIP loss for `any2vec evaluate`: its flags, and the run's own options behind them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from any2vec.cli.bar import Bar
from any2vec.cli.options import Flag, flags_of
from any2vec.cli.run.job import text_options
from any2vec.data.io.storage import RESULT_FORMAT, format_of_folder
from any2vec.errors import InputError
from any2vec.evaluate.words.target_options import TargetOptions

_SHARED = ("max_vocab", "seed")
"""options that `evaluate` has for other tasks, too"""


@cache
def pip_flags() -> dict[str, Flag]:
    """Flags of the target and of reading text."""
    owners = {"pip": TargetOptions, "text": text_options()}
    panels = {"pip": "pip: the target; by default as in training", "text": "pip: reading text"}
    return {name: flag for name, flag in flags_of(owners, panels).items() if name not in _SHARED}


def check_flags(task: str, values: dict[str, Any]) -> None:
    """Raise InputError for a flag of PIP loss with another task."""
    if task != "pip" and values:
        name = next(iter(values))
        raise InputError(f"{pip_flags()[name].flag} is for --task pip; leave it out.")


def judge(run: Path, embeddings: Any, data: Path, values: dict[str, Any], references: bool) -> Any:
    """PIP loss against a text or other vectors. values: the flags that were given."""
    from any2vec.evaluate.words.pip import evaluate_pip, options_of

    if format_of_folder(data) == RESULT_FORMAT:
        if values or not references:
            raise InputError(
                f"{data} holds vectors: options of counting and reading text do not go with them; leave them out."
            )
        return evaluate_pip(embeddings, data)
    names = {item.name for item in fields(TargetOptions)}
    given = {"seed": _seed_of(run)} | {name: value for name, value in values.items() if name in names}
    text = text_options()(**{name: value for name, value in values.items() if name not in names})
    with Bar() as bar:
        return evaluate_pip(
            embeddings, data, options=options_of(embeddings, **given), text=text, references=references,
            stage=bar.stage,
        )  # fmt: skip


def _seed_of(run: Path) -> int:
    """The seed of the run in a folder; 1 where nothing tells it."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads((run / "run.json").read_text(encoding="utf-8"))["settings"]["seed"])
    return 1
