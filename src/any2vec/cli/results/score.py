"""`any2vec score`."""

from __future__ import annotations

import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from any2vec.cli.output import cell, details, guarded, note, plain, print_json, show, words
from any2vec.cluster.launch.join import check_torch
from any2vec.data.io.kept_scores import keep_scores
from any2vec.data.io.storage import atomic_file, check_file_free
from any2vec.errors import InputError
from any2vec.train.registry import task_of_run
from any2vec.train.run_folder import is_node_classifier
from any2vec.train.task import Task
from any2vec.units import number, visible

_BATCH_SIZE = 4096
_MOST_UNSEEN = 0.5
"""share of a column's values that is remarked upon"""


def _score(
    model: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished run.", show_default=False)],
    rows: Annotated[
        list[str], typer.Argument(metavar="ROWS...", help="Files like those of training.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="File for the probabilities, a line a row; - is standard output.", show_default=False
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is at --out.")] = False,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", min=1, help=r"Clicks: rows scored at once \[default 4096]")
    ] = None,
    features: Annotated[
        Path | None, typer.Option("--features", help="Models of ga-mlp: the nodes' features.", show_default=False)
    ] = None,
    module: Annotated[
        str | None,
        typer.Option("--module", help="A module of your own: package:Class, whose code runs.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object of scores, no probabilities.")] = False,
) -> None:
    """How likely a click is for each row, by a model of clicks; and how good that is, where the label is there.

    any2vec score clicks rows.tsv --out probabilities.txt
    any2vec score graph triples.tsv --out scores.tsv
    any2vec score classes edges.tsv --features x.npz --out predicted.tsv

    Of a model of triples: the score of each triple, comparable among triples with the same head and relation. Of a
    classifier of nodes: the class of each node of a graph, old nodes or new ones, and how likely it is. Without --out
    (and --json) the lines go to standard output.
    """
    if out == Path("-"):
        out = None
    if out is not None:
        check_file_free(out, overwrite)
    task, options = task_of_run(model), {} if module is None else {"module": module}
    if module is not None and (task is None or "module" not in task.score_options):
        raise InputError(f"--module is for a run of a module of your own, and {model} is none; leave it out.")
    if is_node_classifier(model):
        _predict_classes(model, rows, features, batch_size, out, overwrite, as_json)
        return
    if len(rows) == 1 and task is not None and (scored := task.score(model, Path(rows[0]), **options)) is not None:
        if features is not None or batch_size is not None:
            told = {"--features": features, "--batch-size": batch_size}
            given = [name for name, value in told.items() if value is not None]
            what = f"Models of {task.title.lower()} are scored without {' and '.join(given)}"
            fix = f"leave {'it' if len(given) == 1 else 'them'} out"
            if features is not None and "module" in task.score_options:
                fix += "; `any2vec graph build EDGES --features X --out GRAPH` makes a graph that has features"
            raise InputError(f"{what}; {fix}.")
        lines = list(scored)
        summary: dict[str, Any] = {"model": str(model), "num_examples": len(lines)}
        _deliver(lines, summary, [("rows", number(len(lines)))], out, overwrite, as_json)
        return
    if len(rows) > 1 and task is not None and type(task).score is not Task.score:
        raise InputError(f"{model} scores one file at a time, and {len(rows)} are given; call it for each.")
    if task is not None and task.name != "clicks":
        raise InputError(f"{model} is a run of {task.title.lower()}, which scores no rows; use any2vec evaluate.")
    if features is not None:
        raise InputError(f"--features is for a classifier of nodes, and {model} is none; leave it out.")
    check_torch("Models of clicks")
    from any2vec.models.clicks.scorer import ClickScorer

    scorer = ClickScorer.load(model)
    found, counts = [], []
    for batch in scorer.encoder.encode(rows[0] if len(rows) == 1 else rows, batch_size=batch_size or _BATCH_SIZE):
        found.append((scorer.predict(batch), batch.label_B))
        counts.append(scorer.encoder.unseen(batch))
    probability_N = np.concatenate([probabilities for probabilities, _ in found])
    label_N = np.concatenate([labels for _, labels in found])
    summary = {
        "model": str(model), "num_examples": len(probability_N), "mean": float(probability_N.mean()),
        "unseen": _unseen(scorer.encoder.schema.columns, *(sum(part) for part in zip(*counts, strict=True))),
    }  # fmt: skip
    for name, share in summary["unseen"].items():
        if share > _MOST_UNSEEN:
            note(
                f"Column {name!r}: {share:.0%} of its values are not among those of training; are they written as they "
                "were there (547, not 547.0)?"
            )
    is_known = ~np.isnan(label_N)
    if is_known.any():
        judged = _judged(label_N[is_known], probability_N[is_known])
        summary |= judged
        keep_scores(model, [plain({"task": "clicks", "data": ", ".join(rows)} | judged)])
    pairs = [("rows", number(summary["num_examples"])), ("mean", f"{summary['mean']:.4f}")]
    shown = (name for name in ("log_loss", "auc", "normalized_entropy") if name in summary)
    pairs += [(words(name), cell(summary[name])) for name in shown]
    pairs += [("note", summary["note"])] if "note" in summary else []
    lines = [f"{probability:.9g}\n" for probability in probability_N.tolist()]
    _deliver(lines, summary, pairs, out, overwrite, as_json)


def _unseen(columns: Any, unseen_F: Any, given_F: Any) -> dict[str, float]:
    """Of each column with a vocabulary, the share of values that it does not hold."""
    return {
        column.name: unseen / max(1, given)
        for column, unseen, given in zip(columns, unseen_F.tolist(), given_F.tolist(), strict=True)
        if column.ids == "vocabulary"
    }


def _deliver(
    lines: list[str], summary: dict[str, Any], pairs: list[tuple[str, str]], out: Path | None, overwrite: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Write the lines to `out`, and what they are about to people or programs; without both, the lines alone."""
    if out is not None:
        with atomic_file(out, overwrite) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")
    if as_json:
        print_json(summary)
    elif out is None:
        text = "".join(lines)
        typer.echo(visible(text) if sys.stdout.isatty() else text, nl=False)  # a program gets the keys as they are
    else:
        show(details("", [*pairs, ("written to", str(out))]))


def _predict_classes(
    model: Path, edges: list[str], features: Path | None, batch_size: int | None, out: Path | None, overwrite: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """`node class probability` lines of all nodes of a graph."""
    if features is None or len(edges) != 1:
        raise InputError(f"{model} classifies nodes: give one graph, and their features, --features.")
    if batch_size is not None:
        raise InputError("--batch-size is for models of clicks; leave it out.")
    from any2vec.data.attributed.predictions import class_shares
    from any2vec.models.layers.classifier import NodeClassifier
    from any2vec.tasks.layers.prepare import answer_nodes

    classifier = NodeClassifier.load(model)
    keys, _, score_NC = answer_nodes(classifier, edges[0], features)
    share_NC = class_shares(score_NC)
    predicted_N = share_NC.argmax(axis=1)
    names = [classifier.classes[row] for row in predicted_N.tolist()]
    lines = [
        f"{key}\t{name}\t{share:.6g}\n" for key, name, share in zip(keys, names, share_NC.max(axis=1), strict=True)
    ]
    counts = {name: names.count(name) for name in classifier.classes}
    summary = {"model": str(model), "num_nodes": len(keys), "classes": counts}
    by_class = ", ".join(f"{name} {number(count)}" for name, count in counts.items())
    _deliver(lines, summary, [("nodes", number(len(keys))), ("classes", by_class)], out, overwrite, as_json)


def _judged(label_B: np.ndarray, probability_B: np.ndarray) -> dict[str, Any]:
    """Scores of rows whose label is known; None, and a note why, for those that need both labels."""
    from any2vec.evaluate.clicks import ClicksResult, calibration, evaluate_clicks, log_loss

    label = label_B[0]
    if (label_B != label).any():
        return asdict(evaluate_clicks(label_B, probability_B))
    return dict.fromkeys(item.name for item in fields(ClicksResult)) | {
        "log_loss": log_loss(label_B, probability_B),
        "calibration": calibration(label_B, probability_B) if label else None,
        "rate": float(label),
        "num_examples": len(label_B),
        "note": f"All {len(label_B):,} labels are {label:.0f}: AUC, normalized entropy and the like need both.",
    }


score = guarded(_score)
