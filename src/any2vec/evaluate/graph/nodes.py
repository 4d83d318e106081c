"""Node classification: how well do rows tell the labels of nodes?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from any2vec.checks import MAX_SEED, check_whole, is_missing
from any2vec.data.attributed.node_tables import (
    LABEL_RANKS,
    LABEL_WORDS,
    NODE_WORDS,
    NamedColumns,
    by_position,
    columns_of_header,
    labels_by_node,
)
from any2vec.data.io.files import is_table
from any2vec.data.vocab.user_keys import listed, text_of
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, InputError
from any2vec.evaluate.graph.logistic import fit_logistic
from any2vec.evaluate.reading import check_embeddings, fields_of, mark_of, read_lines, rows_in_memory

MOST_SHUFFLES = 10_000
FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_FEWEST_ENDS = 10
_SHARE_OF_ENDS = 0.9
"""of what stands second on the lines of a file of labels, that may be nodes: more are edges' other ends"""
_SEVERAL = (list, tuple, Set, np.ndarray)
"""what holds the labels of a node"""
_INTEGER = re.compile(r"-?\d{1,18}")
_HEADER_FIRST = NODE_WORDS | {"user", "name"}
_AS_THEY_COME = NamedColumns(0, None, 0, 2)
"""lines `node label label …`"""


@dataclass(frozen=True)
class NodesScore:
    """Scores at one share of training nodes: mean and sample standard deviation over the shuffles, F1 in 0..1."""

    fraction: float
    micro_f1: float
    micro_f1_std: float
    macro_f1: float
    macro_f1_std: float
    micro_f1_runs: tuple[float, ...]
    macro_f1_runs: tuple[float, ...]


@dataclass(frozen=True)
class NodesResult:
    """Scores at every share, and what they are about."""

    scores: tuple[NodesScore, ...]
    num_nodes: int
    """labeled nodes"""
    num_missing: int
    """labeled nodes without a row"""
    num_labels: int
    shuffles: int
    seed: int
    protocol: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"task": "nodes", **asdict(self)}


def read_labels(path: Path, known: Embeddings | None = None) -> tuple[list[str], list[str], np.ndarray]:
    """Nodes in order of appearance, label names sorted (as numbers where all are), and who has which, bool (N, L).

    Lines `node label`, `node label label …`, or several lines a node; tab, comma or blanks as on the first line, and
    with tab or comma quotes as of CSV; `#` comments skipped. A header (`id,label`) says by names where they stand; a
    column without a name in front is an index. A first node of `known` embeddings is no header, and an unknown one
    is, of any words, before a known one, if nothing else has its label.
    """
    pairs: list[tuple[str, str]] = []
    seconds: list[str] = []
    is_first, mark, columns = True, None, _AS_THEY_COME
    for number, line in read_lines(path):
        if line.startswith("#"):
            continue
        mark = mark_of(line) if is_first else mark
        fields = fields_of(line.strip(" \n"), mark)
        named = _header(fields, mark, path.name) if is_first and (known is None or fields[0] not in known) else None
        is_first = False
        if named is not None:
            columns = named
            continue
        node, labels = columns.of(fields)
        labels = [label for label in labels if label]
        if not node or not labels:
            raise DataError(f"{path.name}, line {number:,}: expected `node label` (or more labels), got {line[:60]!r}.")
        pairs += [(node, label) for label in labels]
        seconds.append(labels[0])
    if not pairs:
        raise DataError(f"{path.name}: there are no labels in it.")
    if known is not None:
        _check_no_edges(path, len({node for node, _ in pairs}), set(seconds[1:]), known)
        pairs = pairs[_header_size(pairs, known) :]
    return _of_pairs(pairs)


def _header(fields: list[str], mark: str | None, name: str) -> NamedColumns | None:
    """What a first line names, of nodes, or of their labels behind them; None: it is none."""
    if (found := columns_of_header(fields, LABEL_RANKS, name)) is not None:
        return found
    is_named = fields[0].lower() in _HEADER_FIRST
    if not is_named and (len(fields) < 2 or fields[-1].lower() not in LABEL_WORDS):
        return None
    found = columns_of_header(["node", *fields[1:]], LABEL_RANKS, name)
    return found if is_named or mark is not None else _AS_THEY_COME


def labels_of(source: Any, known: Embeddings) -> tuple[list[str], list[str], np.ndarray]:
    """As `read_labels`, of a file or of what is in memory: a dict or a Series of pandas, node -> label, of a dict also
    labels (a list, a set, an array); a table, its columns by names (node, label), else its two columns, or pairs, node
    and label; or a list, an array or a column with the label of each row of the embeddings. A frame of pandas with
    one column goes by its index, as a Series does. None, NaN, -1 and "" are none.

    Raises:
        DataError: it is none of these, or names no node or no label.
    """
    wanted = (
        "Labels are a file, a dict of node -> label, a table or pairs of node and label, or a list of a label a row"
    )
    if isinstance(source, str | Path):
        return read_labels(Path(source), known)
    source = _by_name(source, wanted) if is_table(source) else source
    is_flat = isinstance(source, Iterable) and not is_table(source) and getattr(source, "ndim", 1) == 1
    pairs: list[tuple[Any, Any]]
    if isinstance(source, Mapping):
        several = (labels if isinstance(labels, _SEVERAL) else [labels] for labels in source.values())
        pairs = [(node, label) for node, labels in zip(source, several, strict=True) for label in labels]
    elif is_flat and hasattr(source, "items"):
        pairs = list(source.items())
    else:
        given = listed(source) if is_flat else source
        if is_flat and given and not isinstance(given[0], _SEVERAL):
            if len(given) != len(known):
                raise DataError(f"{wanted}; got {len(given):,} labels of {len(known):,} rows.")
            pairs = list(zip(known, given, strict=True))
        else:
            pairs = rows_in_memory(given, 2, wanted)
    named = [(_node_of(node), _label_of(label)) for node, label in pairs]
    named = [(node, label) for node, label in named if label]
    if not named:
        raise DataError(f"{wanted}; there is no label in what was given.")
    return _of_pairs(named)


def _by_name(source: Any, wanted: str) -> Any:
    """A dict of node -> labels, or a Series, of a table whose columns or index say which nodes they are of; else a
    table of two columns or fewer."""
    from any2vec.data.io.arrow import TableReader

    source = source.read_all() if hasattr(source, "read_all") else source  # which is read once only
    if hasattr(source, "iloc"):
        names = [str(name).lower() for name in source.columns]
        if not NODE_WORDS & {*names} and str(source.index.name).lower() in NODE_WORDS:
            source = source.reset_index()
        elif len(names) == 1 and names[0] not in NODE_WORDS:
            return source.iloc[:, 0]
    elif isinstance(source, Mapping):
        return labels_by_node(source)
    names = TableReader(source, None).names
    found = source if len(names) < 2 else labels_by_node(by_position(source))
    if found is not source and isinstance(found, Mapping):
        return found
    if len(names) > 2:
        raise DataError(f"{wanted}; the table has columns {', '.join(names)}: call two of them node and label.")
    return source


def _node_of(node: Any) -> str:
    """A node as embeddings keep its key: tuples as their text, whole floats as integers."""
    if isinstance(node, float) and node.is_integer():
        return str(int(node))
    name = str(node) if isinstance(node, tuple) else text_of(node)
    if name is None:
        raise DataError(f"A labeled node is a string, a whole number or a tuple, got {node!r:.80}; fill or drop it.")
    return name


def _label_of(label: Any) -> str:
    """A label as text, whole floats as integers; "": it is none."""
    is_none = is_missing(label) or label != label or label == -1
    return "" if is_none else str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _of_pairs(pairs: list[tuple[str, str]]) -> tuple[list[str], list[str], np.ndarray]:
    """As `read_labels`, of node and label."""
    nodes = {node: row for row, node in enumerate(dict.fromkeys(node for node, _ in pairs))}
    found = {label for _, label in pairs}
    names = in_order(found)
    column = {name: index for index, name in enumerate(names)}
    truth = np.zeros((len(nodes), len(names)), dtype=bool)
    for node, label in pairs:
        truth[nodes[node], column[label]] = True
    return list(nodes), names, truth


def _header_size(pairs: list[tuple[str, str]], known: Embeddings) -> int:
    """How many of the pairs (node, label) are a first line that names columns: its node is no key and no number, the
    next one is a key, and its last label comes nowhere else."""
    first = pairs[0][0]
    size = next((place for place, (node, _) in enumerate(pairs) if node != first), 0)
    if not size or first in known or _INTEGER.fullmatch(first) or pairs[size][0] not in known:
        return 0
    return size if pairs[size - 1][1] not in {label for _, label in pairs[size:]} else 0


def _check_no_edges(path: Path, num_nodes: int, seconds: set[str], known: Embeddings) -> None:
    """DataError where what stands second on the lines are nodes, and so many of them that the lines must be edges.

    Labels may be numbers as nodes are: of those there are few. seconds: but for the first line, which may be a header.
    """
    if len(seconds) < _FEWEST_ENDS or 2 * len(seconds) <= num_nodes:
        return
    num_known = int((known.rows(seconds) >= 0).sum())
    if num_known > _SHARE_OF_ENDS * len(seconds):
        raise DataError(
            f"{path.name} seems to be a list of edges: {num_known:,} of the {len(seconds):,} names that stand second "
            "are nodes themselves; give lines `node label`, or edges cut by any2vec split to --task links."
        )


def in_order(names: Iterable[str]) -> list[str]:
    """Names of classes sorted, as numbers where all are."""
    known = list(names)
    return sorted(known, key=int if all(map(_INTEGER.fullmatch, known)) else None)


def f1_scores(truth_NL: np.ndarray, predicted_NL: np.ndarray) -> tuple[float, float]:
    """(micro, macro) F1 of two bool matrices. Macro is the mean over all L labels; 0 / 0 is 0, as in scikit-learn."""
    hits = (truth_NL & predicted_NL).sum(axis=0).astype(np.float64)
    total = (truth_NL.sum(axis=0) + predicted_NL.sum(axis=0)).astype(np.float64)
    each = np.divide(2 * hits, total, out=np.zeros_like(hits), where=total > 0)
    return float(2 * hits.sum() / total.sum()) if total.sum() else 0.0, float(each.mean())


def predict(margins_NL: np.ndarray, counts_N: np.ndarray | None) -> np.ndarray:
    """Labels as bool (N, L): the counts_N[n] highest of each row (ties: lower label), or without counts all above 0."""
    if counts_N is None:
        return margins_NL > 0
    order = np.argsort(-margins_NL, axis=1, kind="stable")
    predicted = np.zeros(margins_NL.shape, dtype=bool)
    np.put_along_axis(predicted, order, np.arange(margins_NL.shape[1]) < counts_N[:, None], axis=1)
    return predicted


def _run(rows: np.ndarray, vectors: np.ndarray, truth: np.ndarray, cut: int, known_counts: bool) -> tuple[float, float]:
    """One split: `rows` (N,) in shuffled order, -1 for nodes without a row; the first `cut` train."""
    trained = np.flatnonzero(rows[:cut] >= 0)
    weights, intercepts = fit_logistic(vectors[rows[trained]], truth[trained])
    tested = np.flatnonzero(rows[cut:] >= 0) + cut
    margins = vectors[rows[tested]].astype(np.float64) @ weights + intercepts
    predicted = np.zeros((len(rows) - cut, truth.shape[1]), dtype=bool)
    predicted[tested - cut] = predict(margins, truth[tested].sum(axis=1) if known_counts else None)
    return f1_scores(truth[cut:], predicted)


def evaluate_nodes(
    embeddings: Embeddings,
    labels_path: Any,
    *,
    fractions: Sequence[float] = FRACTIONS,
    shuffles: int = 10,
    seed: int = 1,
    known_counts: bool = True,
    missing: Literal["wrong", "excluded"] = "wrong",
) -> NodesResult:
    """One-vs-rest L2 logistic regression (C = 1, as scikit-learn's default) on the raw rows.

    Args:
        embeddings: rows of nodes.
        labels_path: a file of `node label` pairs or `node label label …` lines (see `read_labels`); a dict, a Series, a
            table, pairs, or an array of a label a row (see `labels_of`).
        fractions: shares of the labeled nodes that train, each in (0, 1); the rest is scored.
        shuffles: random splits for each share, 1 to 10,000; shuffle s orders the nodes alike at every share.
        seed: of the shuffles.
        known_counts: the published protocol (DeepWalk, node2vec): each node is given its true number of labels, the
            highest ranked so many are predicted. False: the labels of probability above 0.5.
        missing: nodes without a row stay in the split, train nothing and are scored as wrong (no label predicted), or
            are "excluded" from it. The result says how many.

    Raises:
        InputError: an option is not legal, or no labeled node has a row.
        DataError: the labels cannot be read.
    """
    check_embeddings(embeddings)
    if not fractions or not all(0 < fraction < 1 for fraction in fractions):
        raise InputError(f"fractions must lie within (0, 1), got {list(fractions)}.")
    check_whole("shuffles", shuffles, 1, MOST_SHUFFLES)
    check_whole("seed", seed, 0, MAX_SEED)
    if missing not in ("wrong", "excluded"):
        raise InputError(f"missing must be 'wrong' or 'excluded', not {missing!r}.")
    nodes, names, truth = labels_of(labels_path, embeddings)
    rows = embeddings.rows(nodes)
    num_missing = int((rows < 0).sum())
    if num_missing == len(rows):
        raise InputError(f"none of the {len(rows):,} labeled nodes (first: {nodes[0]!r}) is a key of the embeddings.")
    if missing == "excluded":
        rows, truth = rows[rows >= 0], truth[rows >= 0]
    scores = []
    for fraction in fractions:
        cut = int(fraction * len(rows))
        if not 1 <= cut < len(rows):
            raise InputError(f"fraction {fraction} of {len(rows):,} labeled nodes leaves nothing to train or to score.")
        runs = []
        for shuffle in range(shuffles):
            order = np.random.default_rng((seed, shuffle)).permutation(len(rows))
            if not (rows[order[:cut]] >= 0).any():
                raise InputError(f"at fraction {fraction} no training node has a row; {num_missing:,} are missing.")
            runs.append(_run(rows[order], embeddings.vectors, truth[order], cut, known_counts))
        scores.append(_summary(float(fraction), runs))
    counts = "each node given its true number of labels" if known_counts else "labels of probability above 0.5"
    protocol = (
        f"one-vs-rest logistic regression (L2, C=1), {counts}; nodes without a row {missing}; macro F1 over all labels"
    )
    return NodesResult(tuple(scores), len(nodes), num_missing, len(names), shuffles, seed, protocol)


def _summary(fraction: float, runs: list[tuple[float, float]]) -> NodesScore:
    micro, macro = (np.array(values) for values in zip(*runs, strict=True))
    spread = [float(values.std(ddof=1)) if len(values) > 1 else 0.0 for values in (micro, macro)]
    return NodesScore(
        fraction,
        float(micro.mean()),
        spread[0],
        float(macro.mean()),
        spread[1],
        tuple(micro.tolist()),
        tuple(macro.tolist()),
    )
