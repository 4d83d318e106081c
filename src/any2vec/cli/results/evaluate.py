"""`any2vec evaluate`, PIP loss among its tasks, and `any2vec dimension`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.checks import MAX_SEED, check_choice, parse_json
from any2vec.cli.bar import Bar
from any2vec.cli.options import Flag, flags_of, out_option, path_option, unset_option, with_flags
from any2vec.cli.output import AsJson, details, guarded, note, plain, print_json, render, show
from any2vec.cli.results.search import Format, Result, load
from any2vec.cli.run.flags import check_input
from any2vec.data.attributed.predictions import num_trained
from any2vec.data.io.kept_scores import keep_scores
from any2vec.data.io.storage import RESULT_FORMAT, atomic_file, check_file_free, format_of_folder
from any2vec.data.options import TextOptions
from any2vec.errors import DataError, InputError
from any2vec.evaluate.words.target_options import DimensionOptions, TargetOptions
from any2vec.train.registry import task_named, tasks
from any2vec.train.task import Task
from any2vec.units import fraction

_SHARED = ("max_vocab", "seed")
"""options that `evaluate` has for other tasks, too"""


@cache
def pip_flags() -> dict[str, Flag]:
    """Flags of the target and of reading text."""
    owners = {"pip": TargetOptions, "text": TextOptions}
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
    text = TextOptions(**{name: value for name, value in values.items() if name not in names})
    with Bar() as bar:
        return evaluate_pip(
            embeddings, data, options=options_of(embeddings, **given), text=text, references=references,
            stage=bar.stage,
        )  # fmt: skip


def _seed_of(run: Path) -> int:
    """The seed of the run in a folder; 1 where it is not known."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(parse_json((run / "run.json").read_text(encoding="utf-8"))["settings"]["seed"])
    return 1


_OF = {
    "--method": ("analogy",), "--max-vocab": ("analogy", "pip"), "--fractions": ("nodes",), "--shuffles": ("nodes",),
    "--seed": ("nodes", "pip"), "--score": ("links",), "--known": ("triples",), "--unknown": ("triples",),
    "--exclude": ("recommend",), "--k": ("recommend",), "--unseen/--seen-only": ("similarity",),
    "--references/--no-references": ("pip",), "--relations": ("triples",), "--by": ("triples",),
    "--format": ("similarity", "analogy", "pip", "nodes", "links"),
}  # fmt: skip
"""flag -> the tasks that have it"""
_LIKE = {("--exclude", "triples"): "--known", ("--known", "recommend"): "--exclude"}


def _check_own(task: str, given: list[str]) -> None:
    """Raise InputError for a flag of other tasks, which would do nothing."""
    for flag in given:
        if task not in _OF[flag]:
            like = _LIKE.get((flag, task))
            end = "leave it out" if like is None else f"for {task} it is {like}"
            raise InputError(f"{flag} is for --task {' and '.join(_OF[flag])}; {end}.")


def _check_known(task: str) -> None:
    """Raise InputError for what is neither one of TASKS nor a task of another package with a test of its own."""
    known = [*TASKS, *(name for name, one in tasks().items() if type(one).evaluate is not Task.evaluate)]
    if task not in known:
        raise InputError(f"--task must be one of {', '.join(known)}; got {task!r}.")


def _check_covered(found: Sequence[Mapping[str, Any]]) -> None:
    """Raise DataError where tests of words have no score, for none of their pairs or questions has all its words."""
    sets = [one for result in found for one in result.get("sets") or [result.get("total")] if isinstance(one, Mapping)]
    if sets and not any(one["covered"] for one in sets):
        noun = "pairs" if "pairs" in sets[0] else "questions"
        raise DataError(
            f"0 of {sum(one[noun] for one in sets):,} {noun} have a vector for each of their words; give {noun} of "
            "words that were trained, in the same spelling."
        )


TASKS = ("similarity", "analogy", "pip", "nodes", "links", "triples", "recommend")


def _evaluate(
    run: Result,
    task: Annotated[str, typer.Option("--task", "-t", help=", ".join(TASKS))],
    data: Annotated[
        list[Path],
        path_option(
            "--data", "-d", help="Word pairs, questions, text, labels, a split, triples, interactions; repeat."
        ),
    ],
    method: Annotated[
        str | None, unset_option("--method", help="analogy: add (3CosAdd) or mul (3CosMul)", default="add")
    ] = None,
    max_vocab: Annotated[
        int | None,
        typer.Option(
            "--max-vocab",
            min=4,
            show_default=False,
            help=r"analogy: only among the most frequent words \[default 30000]; pip: of training",
        ),
    ] = None,
    fractions: Annotated[
        str | None,
        typer.Option("--fractions", help="nodes: shares that train, by commas (0.1 to 0.9)", show_default=False),
    ] = None,
    shuffles: Annotated[
        int | None, unset_option("--shuffles", min=1, help="nodes: random splits per share", default="10")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            max=MAX_SEED,
            show_default=False,
            help=r"nodes: of the splits \[default 1]; pip: of the training",
        ),
    ] = None,
    score: Annotated[
        str | None, unset_option("--score", help="links: dot, cosine, output or hadamard", default="dot")
    ] = None,
    known: Annotated[
        list[Path] | None,
        path_option("--known", help="triples: others that are true, besides those of training.", show_default=False),
    ] = None,
    unknown: Annotated[
        str | None,
        unset_option(
            "--unknown",
            help="triples: those with names that have no vector rank in the middle, skip, or error",
            default="middle",
        ),
    ] = None,
    exclude: Annotated[
        list[Path] | None,
        path_option("--exclude", help="recommend: interactions that are not ranked, of training.", show_default=False),
    ] = None,
    k: Annotated[int | None, unset_option("--k", "-k", min=1, help="recommend: items of a list", default="20")] = None,
    unseen: Annotated[
        bool | None,
        unset_option(
            "--unseen/--seen-only",
            help="similarity: count words that training has not seen, where the result can make their vectors",
            default="unseen",
        ),
    ] = None,
    references: Annotated[
        bool | None,
        unset_option(
            "--references/--no-references", help="pip: find the best there is, too (slow)", default="references"
        ),
    ] = None,
    relations: Annotated[
        str | None,
        unset_option(
            "--relations", help="triples: how many relations to show, or all; --json has all of them", default="10"
        ),
    ] = None,
    by: Annotated[
        str | None,
        unset_option("--by", help="triples: relations that are frequent, or worst (MRR), first", default="frequent"),
    ] = None,
    format: Format = None,
    as_json: AsJson = False,
    **values: Any,
) -> None:
    """Score vectors on a public test.

    similarity: rank correlation with people's judgement. analogy: Google's questions, by section.
    pip: inner products against a text's shifted positive PMI, or against other vectors; zeros have 1, less is better.
    nodes: labels of nodes from their vectors. links: held-out edges against fixed negatives (see any2vec split).
    triples: ranks of held-out triples among all entities, filtered, both sides.
    recommend: held-out items of users among all items but those of --exclude: Recall@k, NDCG@k, hit rate.
    The name of a task of another package: its own test.
    """
    given = {
        "--method": method, "--max-vocab": max_vocab, "--fractions": fractions, "--shuffles": shuffles, "--seed": seed,
        "--score": score, "--known": known, "--unknown": unknown, "--exclude": exclude, "--k": k, "--by": by,
        "--unseen/--seen-only": unseen, "--references/--no-references": references, "--relations": relations,
        "--format": format,
    }  # fmt: skip
    options: dict[str, dict[str, Any]] = {
        "similarity": {"unseen": unseen is not False},
        "analogy": {"method": method or "add", "max_vocab": max_vocab or 30_000},
        "nodes": {"shuffles": shuffles or 10, "seed": 1 if seed is None else seed} | _fractions(fractions),
        "links": {"score": score or "dot"},
        "pip": {},
        "triples": {"known": known or [], "unknown": unknown or "middle"},
        "recommend": {"exclude": [str(path) for path in exclude or []] or None, "k": k or 20},
    }
    _check_known(task)
    _check_own(task, [flag for flag, value in given.items() if value is not None])
    check_flags(task, values)
    shown = _relations_shown(relations or "10")
    check_choice("--by", by or "frequent", _ORDERS)
    for path in [*data, *(known or []), *(exclude or [])]:
        check_input(str(path))
    has_scorer = task in ("triples", "recommend")
    judged = task_named(task).scorer(run) if has_scorer else load(run, format) if task in options else run

    def judge_one(path: Path) -> Any:
        if task not in options:
            return task_named(task).evaluate(run, path)
        if task == "pip":
            asked = {name: value for name, value in (("max_vocab", max_vocab), ("seed", seed)) if value is not None}
            return judge(run, judged, path, values | asked, references is not False).as_dict()
        seen = {"num_trained": num} if task == "nodes" and (num := num_trained(run)) else {}
        return function(task)(judged, path, **options[task]).as_dict() | seen

    told = {"task": task} | _told(options.get(task, {}))
    found = [told | {"data": str(path)} | _flat(dict(judge_one(path))) for path in data]
    _check_covered(found)
    keep_scores(run, [plain({name: value for name, value in one.items() if name != "relations"}) for one in found])
    if exclude and any(one.get("recall") == 0 for one in found):
        note("No held-out item is in a list: are the held-out pairs in --exclude, too? It takes those of training.")
    if as_json:
        print_json(found[0] if len(found) == 1 else {"task": task, "results": found})
        return
    for one in found:
        show(*render(_for_people(one) | _relations_of(one, shown, by or "frequent")))
        left = len(one.get("relations", ())) - (shown or 0)
        if shown is not None and left > 0:
            note(f"{left:,} more relations: --relations all, and --by worst for the worst ones first.")
        if one.get("num_trained"):
            note(
                f"The vectors were learned from the classes of {one['num_trained']:,} nodes, which may be among those "
                "that are scored here: unseen nodes score lower. The test score of the run itself is theirs."
            )
        if one.get("num_unknown_users"):
            note(f"{one['num_unknown_users']:,} users of the test are not among those of training: they are left out.")
        if one.get("num_unknown"):
            note(
                f"{one['num_unknown']:,} of {one['num_triples']:,} triples have names that the model was not trained "
                "on: they rank in the middle; --unknown skip leaves them out."
            )


evaluate = with_flags(guarded(_evaluate), pip_flags())


def _told(options: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a test beside its data, where the result does not: lists as text."""
    about = {name: options.get(name) for name in ("method", "max_vocab", "unknown", "unseen")}
    lists = {name: ", ".join(map(str, options.get(name) or ())) for name in ("known", "exclude", "fractions")}
    return {name: value for name, value in (about | lists).items() if value not in (None, "")}


def function(task: str) -> Any:
    """The function of `any2vec.evaluate` behind a task; scikit-learn is imported only by those that need it."""
    if task == "triples":
        return importlib.import_module("any2vec.evaluate.triples").evaluate_triple_file
    if task == "recommend":
        return importlib.import_module("any2vec.evaluate.recommend").evaluate_recommend
    room = "graph" if task in ("nodes", "links") else "words"
    return getattr(importlib.import_module(f"any2vec.evaluate.{room}.{task}"), f"evaluate_{task}")


def _flat(result: dict[str, Any]) -> dict[str, Any]:
    """The score on a single set stands at the top too, where a program looks first."""
    sets: list[dict[str, Any]] = list(result.get("sets") or [])
    if len(sets) != 1:
        return result
    return result | {name: sets[0][name] for name in ("spearman", "pairs", "covered", "made")}


def _for_people(result: dict[str, Any]) -> dict[str, Any]:
    """Without what a person does not read (single shuffles, the protocol's text); totals below their sections."""
    shown = {name: value for name, value in plain(result).items() if name not in ("protocol", "task", "relations")}
    totals = [shown.pop(name) for name in ("semantic", "syntactic", "total") if name in shown]
    if totals:
        shown["sections"] += [total for total in totals if total["questions"]]
    for name in ("spearman", "pairs", "covered", "made") if shown.get("sets") else ():
        shown.pop(name, None)
    if "scores" in shown:
        shown["scores"] = [
            {name: value for name, value in row.items() if not name.endswith("_runs")} for row in shown["scores"]
        ]
    return shown


_ORDERS = ("frequent", "worst")


def _relations_shown(text: str) -> int | None:
    """How many relations the table has; None: all."""
    if text == "all":
        return None
    if not text.isdecimal():
        raise InputError(f"--relations must be a whole number of 0 or more, or all, got {text!r}.")
    return int(text)


def _relations_of(result: dict[str, Any], most: int | None, by: str) -> dict[str, Any]:
    """The rows of the table of relations, where there are several."""
    found = plain(result.get("relations", []))
    if len(found) < 2 or most == 0:
        return {}
    if by == "worst":
        found.sort(key=lambda one: one["both"]["mrr"])
    return {
        "relations": [
            {"relation": "(unknown)" if one["relation"] is None else str(one["relation"])}
            | {"triples": one["head"]["count"], "mrr": one["both"]["mrr"]}
            | {f"mrr_{side}": one[side]["mrr"] for side in ("head", "tail")}
            | {name: one["both"][name] for name in ("hits_at_1", "hits_at_3", "hits_at_10")}
            for one in found[:most]
        ]
    }


def _fractions(text: str | None) -> dict[str, Any]:
    return {} if text is None else {"fractions": parse_fractions(text)}


def parse_fractions(text: str) -> tuple[float, ...]:
    """`0.1,0.5` -> (0.1, 0.5); InputError outside (0, 1)."""
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0 < share < 1 for share in shares):
        raise InputError(f"--fractions takes numbers between 0 and 1 by commas, like 0.1,0.5,0.9; got {text!r}.")
    return shares


@cache
def dimension_flags() -> dict[str, Flag]:
    """Flags of counting, of the choice, and of reading text."""
    owners = {"choice": DimensionOptions, "text": TextOptions}
    return flags_of(owners, {"choice": "Choice", "text": "Reading text"})


def _dimension(
    corpus: Annotated[list[str], typer.Argument(metavar="CORPUS...", help="Text, as for train.", show_default=False)],
    out: Annotated[
        Path | None,
        out_option("Picture to write (PNG): spectrum, curve, choice.", "file", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is at --out.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:
    """How many numbers a vector should have, before anything is trained.

    any2vec dimension corpus.txt --out dimension.png

    Counts which words stand near each other; the spectrum of their shifted
    positive PMI is set against the noise between two halves of the text, for
    more dimensions keep more of both (Yin and Shen 2018).
    """
    options = DimensionOptions(**_those(DimensionOptions, values))
    text = TextOptions(**_those(TextOptions, values))
    for path in corpus:
        check_input(path)
    if out is not None:
        check_file_free(out, overwrite)
    from any2vec.evaluate.words.dimension import choose_dimension

    with Bar(quiet) as bar:
        found = choose_dimension(corpus[0] if len(corpus) == 1 else corpus, options=options, text=text, stage=bar.stage)
    if out is not None:
        _draw(found, out, overwrite)
    if as_json:
        print_json(found.as_dict() | {"picture": out})
        return
    is_open = found.dim_even_noise == len(found.spectrum) < found.words
    pairs = [
        ("dimensions", f"{found.dim}{' or more' if found.is_cut else ''}"),
        ("at most", f"{found.dim_even_noise}{' or more' if is_open else ''}, if the noise were alike in all cells"),
        ("expected loss", f"{fraction(found.expected)} of that of no vectors at all"),
        ("words", f"{found.words:,}, {found.pairs:,} pairs above chance"),
    ]
    show(details("", pairs + ([("picture", str(out))] if out is not None else [])))
    if found.is_cut:
        note(f"The search ended at --max-dim {options.max_dim}; a larger one may find more.", quiet)
    if found.dim == 0:
        note("All is noise: there is too little text for these options.", quiet)


dimension = with_flags(guarded(_dimension), dimension_flags())


def _those(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """The values that are fields of a dataclass."""
    return {item.name: values[item.name] for item in fields(kind) if item.name in values}


def _draw(found: Any, out: Path, overwrite: bool) -> None:
    from any2vec.report.figures import LIGHT, draw_dimension

    picture = draw_dimension(found.spectrum, found.edge, found.curve, found.dim, found.dim_even_noise, LIGHT)
    with atomic_file(out, overwrite) as temporary:
        temporary.write_bytes(picture)
