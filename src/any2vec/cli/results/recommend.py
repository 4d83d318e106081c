"""`any2vec recommend`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from any2vec.cli.options import path_option
from any2vec.cli.output import AsJson, columns, details, guarded, note, print_json, show
from any2vec.data.io.storage import atomic_file, check_file_free
from any2vec.errors import DataError, InputError
from any2vec.train.registry import task_of_run
from any2vec.units import number, visible


@guarded
def recommend(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished run.", show_default=False)],
    users: Annotated[
        list[str] | None,
        typer.Argument(metavar="USER...", help="Users; of clicks COLUMN=VALUE pairs.", show_default=False),
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Items for a user.")] = 10,
    exclude_seen: Annotated[
        list[Path] | None,
        path_option(
            "--exclude-seen", help="Data like those of training, whose items are left out.", show_default=False
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option("--column", help="Clicks: the column whose values are ranked.", show_default=False)
    ] = None,
    users_file: Annotated[
        Path | None,
        path_option("--users", help="A file with a user on each line; all: all users.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="File for lines of user, item, score; - is standard output.", show_default=False
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is at --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """The best items for users, by a model of implicit feedback; or the values of a column, by a model of clicks.

    any2vec recommend likes 547 -k 10 --exclude-seen train.tsv
    any2vec recommend likes --users all --exclude-seen train.tsv --out lists.tsv
    any2vec recommend clicks user=547 country=de --column product --exclude-seen clicks.csv

    Of clicks each value of the column is scored as a row with the given values and nothing else; those that stand in
    --exclude-seen with the first COLUMN=VALUE are left out. Similar items: any2vec nearest DIR ITEM.
    """
    task = task_of_run(run)
    name = "" if task is None else task.name
    seen = [str(path) for path in exclude_seen or []] or None
    if name == "clicks":
        if users_file is not None or out is not None:
            raise InputError(
                "A model of clicks ranks for one context: give it as COLUMN=VALUE; leave out --users, --out."
            )
        _recommend_values(run, users or [], column, k, seen, as_json)
        return
    if name != "recommend":
        raise InputError(f"{run} is no finished run of bpr, als or item2vec, or of a model of clicks; give one.")
    if column is not None:
        raise InputError("--column is for models of clicks; leave it out.")
    if bool(users) == (users_file is not None):
        raise InputError("Say for whom: users behind the folder, or --users FILE (or all); not both.")
    if out == Path("-"):
        out = None
    if out is not None:
        check_file_free(out, overwrite)
    elif as_json and users_file is not None:
        raise InputError("--json is for users behind the folder, or with --out; leave it out.")
    from any2vec.models.recommend.recommender import Recommender

    recommender = Recommender.load(run)
    asked = _known_users(users or _users_of(users_file, recommender), recommender)
    row_B = recommender.rows_of(asked)
    left_out = recommender.known(seen)
    if left_out is not None and not len(left_out):
        note("--exclude-seen has no pair of a user and an item of the training data: nothing is left out.")
    if users and out is None:
        answers: Any = recommender.recommend(asked, k, left_out)
        _print("user", "score", dict(zip(asked, answers, strict=True)), as_json, is_one=len(users) == 1)
        return
    lines = _lines(asked, recommender, recommender.best(row_B, k, left_out))
    if out is None:
        is_shown = sys.stdout.isatty()  # a program gets the names as they are
        sys.stdout.writelines(map(visible, lines) if is_shown else lines)
        sys.stdout.flush()  # here, where an error has its sentence
        return
    with atomic_file(out, overwrite) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(lines)
    found = {"run": str(run), "num_users": len(asked), "k": k, "out": str(out)}
    if as_json:
        print_json(found)
    else:
        show(details("", [("users", number(len(asked))), ("items each", str(k)), ("written to", str(out))]))


def _users_of(path: Path | None, recommender: Any) -> list[str]:
    assert path is not None
    if str(path) == "all" and not path.exists():
        return list(recommender.users.names)
    from any2vec.data.io.files import read_blocks

    text = b"".join(read_blocks(path)).decode("utf-8-sig", "replace")
    users = [line.strip() for line in text.splitlines() if line.strip()]
    if not users:
        raise DataError(f"{path} holds no users; give one on each line.")
    return users


def _known_users(listed: list[str], recommender: Any) -> list[str]:
    """Those that the model has; the others are told, and cost the rest nothing."""
    known = [user for user, row in zip(listed, recommender.users.rows(listed).tolist(), strict=True) if row >= 0]
    if not known:
        recommender.rows_of(listed)  # says so
    if unknown := len(listed) - len(known):
        first = next(user for user, other in zip(listed, [*known, None], strict=False) if user != other)
        note(f"{unknown:,} of {len(listed):,} users are not among those of the training data, {first!r} first.")
    return known


def _lines(asked: list[str], recommender: Any, blocks: Iterator[tuple[np.ndarray, np.ndarray]]) -> Iterator[str]:
    """`user<TAB>item<TAB>score` lines, a text for each block."""
    items, place = list(recommender.items.names), 0
    for item_BK, best_BK in blocks:
        yield "".join(
            f"{asked[place + at]}\t{items[item]}\t{score:.9g}\n"
            for at, (rows, scores) in enumerate(zip(item_BK.tolist(), best_BK.tolist(), strict=True))
            for item, score in zip(rows, scores, strict=True)
            if item >= 0
        )
        place += len(item_BK)


def _recommend_values(
    run: Path, pairs: list[str], column: str | None, k: int, seen: list[str] | None, as_json: bool
) -> None:
    from any2vec.cluster.launch.join import check_torch

    check_torch("Models of clicks")
    from any2vec.models.clicks.ranking import rank_values
    from any2vec.models.clicks.scorer import ClickScorer

    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong or not pairs:
        given = f", got {wrong[0]!r}" if wrong else ""
        raise InputError(f"Give what is known as COLUMN=VALUE, like user=547{given}.")
    if column is None:
        raise InputError("Say which column's values are ranked: --column NAME.")
    context = dict(pair.split("=", 1) for pair in pairs)
    if len(context) < len(pairs):
        names = [pair.partition("=")[0] for pair in pairs]
        raise InputError(f"{next(name for name in names if names.count(name) > 1)} is given twice; give it once.")
    answer = rank_values(ClickScorer.load(run), context, column, k, seen)
    _print("context", "probability", {" ".join(pairs): answer}, as_json, column)


def _print(
    noun: str, score: str, found: dict[str, list[tuple[str, float]]], as_json: bool, item: str = "item",
    is_one: bool = True,
) -> None:  # fmt: skip
    if as_json:
        listed = [
            {noun: of, "items": [{"item": str(name), score: value} for name, value in answer]}
            for of, answer in found.items()
        ]
        print_json(listed[0] if is_one else {"lists": listed})
        return
    show(*(
        columns(f"for {of}", [item, score], [(str(name), f"{value:.3f}") for name, value in answer])
        for of, answer in found.items()
    ))  # fmt: skip
