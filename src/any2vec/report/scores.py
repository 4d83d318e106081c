"""The scores that one looks for first, and how well a classifier tells the classes apart.

Legend: C classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.attributed.predictions import Predicted
from any2vec.data.io.kept_scores import told_apart
from any2vec.report.tables import is_number, records_table, spell_name

_HEADLINES = {
    "similarity": ("spearman", "Spearman"), "nodes": ("micro_f1", "micro-F1"), "links": ("auc", "AUC"),
    "triples": ("mrr", "MRR"), "clicks": ("auc", "AUC"), "pip": ("relative", "PIP loss"),
    "analogy": ("accuracy", "analogies"), "recommend": ("ndcg", "NDCG"),
}  # fmt: skip
"""task of `evaluate` and `score` -> the figure that stands for it, and its name"""
OF_RUN = {
    "test_accuracy": "accuracy, test nodes", "val_accuracy": "accuracy, validation nodes",
    "test_micro_f1": "micro-F1, test nodes", "val_micro_f1": "micro-F1, validation nodes",
    "test_auc": "AUC, test edges", "val_auc": "AUC, validation edges",
    "test_mrr": "MRR, test edges", "val_mrr": "MRR, validation edges",
    "test_hits_at_10": "Hits@10, test edges", "val_hits_at_10": "Hits@10, validation edges",
}  # fmt: skip
"""what runs say of themselves"""
MOST_CLASSES = 25
"""rows and columns of the picture of confusions"""


def headlines(summary: dict[str, Any], evaluation: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """(what, figure) of the run's own scores and of each evaluation."""
    found = [(words, f"{summary[key]:.3f}") for key, words in OF_RUN.items() if is_number(summary.get(key))]
    best = [one for one in summary.get("validation") or () if one.get("epoch") == summary.get("best_epoch")]
    for name, value in list(best[0].items())[:2] if best else ():
        is_said = name in summary or f"val_{name}" in summary
        if name != "epoch" and not is_said and is_number(value):
            found.append((f"{spell_name(name)} of validation", f"{value:.3f}"))
    tests = list(evaluation)
    for one, data in zip(tests, told_apart(tests), strict=True):
        task = str(one.get("task"))
        key, name = _HEADLINES.get(task, ("", ""))
        value = (of_most_nodes(one) or one).get(key)
        if is_number(value):
            found.append((f"{name}, {data}" if data else name, f"{value:.3f}"))
    return found


def of_most_nodes(score: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of the scores of nodes, which are by share that trains, those of the largest; {} of others."""
    rows = score.get("scores") if score.get("task") == "nodes" else None
    return rows[-1] if isinstance(rows, list) and rows and isinstance(rows[-1], dict) else {}


class Confusions(NamedTuple):
    """How often a class was taken for another."""

    part: str
    """of the split"""
    classes: list[str]
    """the most frequent ones first"""
    count_CC: np.ndarray
    """int64 (C, C): known class, predicted class"""


def confusions(found: Predicted) -> Confusions | None:
    """Of the test nodes, else of those for validation; None where there are neither, or a node has several classes."""
    for part in ("test", "val"):
        pairs = [
            (label, predicted)
            for label, predicted, split in zip(found.label, found.predicted, found.split, strict=True)
            if split == part and isinstance(label, str)
        ]
        if pairs:
            break
    else:
        return None
    from sklearn.metrics import confusion_matrix

    known, predicted = zip(*pairs, strict=True)
    names, count_CC = sorted({*known, *predicted}), confusion_matrix(known, predicted)
    order = np.argsort(-count_CC.sum(axis=1), kind="stable")
    return Confusions(part, [names[at] for at in order], count_CC[order][:, order])


def by_class(found: Confusions) -> list[dict[str, Any]]:
    """Nodes, precision, recall and F1 of each class; None where nothing was predicted so, or there is none."""
    hits, known, said = found.count_CC.diagonal(), found.count_CC.sum(axis=1), found.count_CC.sum(axis=0)
    return [
        {
            "class": name, "nodes": int(known[at]), "precision": _share(hits[at], said[at]),
            "recall": _share(hits[at], known[at]), "f1": _share(2 * hits[at], known[at] + said[at]),
        }
        for at, name in enumerate(found.classes)
    ]  # fmt: skip


def _share(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


def classes_section(found: Confusions) -> str:
    """A table of classes, and one of confusions whose cells are darker the larger their share of the row."""
    shown = min(len(found.classes), MOST_CLASSES)
    count_CC = found.count_CC[:shown, :shown]
    share_CC = count_CC / np.maximum(found.count_CC[:shown].sum(axis=1, keepdims=True), 1)
    heat_CC = np.ceil(share_CC * 10).astype(int)
    head = "".join(f'<th class="number">{escape(_short(name))}</th>' for name in found.classes[:shown])
    rows = "".join(
        f"<tr><th>{escape(_short(name))}</th>{_cells(count_CC[at].tolist(), heat_CC[at].tolist())}</tr>"
        for at, name in enumerate(found.classes[:shown])
    )
    which = f"the {shown} most frequent classes" if shown < len(found.classes) else "all classes"
    part = {"test": "test", "val": "validation"}[found.part]
    caption = (
        f"Known classes by row, predicted ones by column: {part} nodes of {which}; darker: a larger share of the row"
    )
    return (
        f"{records_table(by_class(found))}<h3>Confusions</h3>"
        f'<div class="scroll"><table class="heat"><tr><th></th>{head}</tr>{rows}</table></div>'
        f'<p class="caption">{caption}.</p>'
    )


def _cells(counts: Sequence[int], heats: Sequence[int]) -> str:
    return "".join(f'<td class="number h{heat}">{count:,}</td>' for count, heat in zip(counts, heats, strict=True))


def _short(name: str) -> str:
    return name if len(name) <= 18 else name[:8] + "…" + name[-9:]
