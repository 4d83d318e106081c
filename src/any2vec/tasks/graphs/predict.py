"""Classes of the nodes of a graph, old nodes or new ones; scores of pairs of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.attributed.graph import AttributedGraph, is_attributed
from any2vec.data.attributed.predictions import classes_said
from any2vec.data.io.files import display
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, InputError
from any2vec.evaluate.graph.scores import pair_scores
from any2vec.models.networks.classifier import NetworkClassifier
from any2vec.models.networks.config.base import GraphNetwork, objective_name
from any2vec.models.networks.encoder import NetworkEncoder
from any2vec.types import State


def predicted_lines(classifier: NetworkClassifier, data: Path) -> Iterator[str]:
    """`node class probability` for each node of a graph folder; of several classes a node those above one half, or the
    likeliest.

    Raises:
        InputError: it is no graph folder, or its features are not those of the training.
    """
    if not is_attributed(data):
        raise InputError(
            f"{data} is no graph folder; any2vec graph build EDGES --features X.npz --out DIR makes one to score."
        )
    graph = AttributedGraph.open(data)
    _, score_NC = classifier.score(graph)
    share_NC = classifier.probabilities(score_NC)
    is_said_NC = classes_said(share_NC, classifier.is_multi_label)
    for row, key in enumerate(graph.keys):
        for place in np.flatnonzero(is_said_NC[row]):
            yield f"{key}\t{classifier.classes[place]}\t{share_NC[row, place]:.6g}\n"


def scorer_of(model: GraphNetwork, weights: State, about: Mapping[str, Any]) -> NetworkClassifier | NetworkEncoder:
    """What scores nodes, or pairs of them, by what the network has learned."""
    kind: Any = NetworkClassifier if objective_name(model) == "classes" else NetworkEncoder
    found: NetworkClassifier | NetworkEncoder = kind.of(model, weights, about)
    return found


def pair_lines(folder: Path, data: Path) -> Iterator[str]:
    """`src dst score` for each line `src dst` of a file, by tab, or else by space: the dot product of their vectors.

    Raises:
        DataError: the file cannot be read, a line is no pair, or a node has no vector.
    """
    if is_attributed(data):
        raise InputError(f"{data} is a graph folder; this network scores pairs of nodes: give lines `src dst`.")
    found = Embeddings.load(folder)
    try:
        lines = data.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{data} cannot be read as lines `src dst`: {error}.") from None
    fields = [line.split("\t") if "\t" in line else line.split() for line in lines]
    for number, pair in enumerate(fields, 1):
        if len(pair) < 2:
            raise DataError(f"{display(data)}, line {number:,}: expected two nodes, by tab or space.")
    names = [[pair[0] for pair in fields], [pair[1] for pair in fields]]
    row_2K = np.stack([found.rows(side) for side in names]) if fields else np.empty((2, 0), np.int64)
    if (row_2K < 0).any():
        side, number = np.argwhere(row_2K < 0)[0]
        raise DataError(
            f"{display(data)}, line {number + 1:,}: node {names[side][number]!r} has no vector; give nodes of the "
            "training graph."
        )
    for source, target, score in zip(*names, pair_scores(found.vectors, row_2K).tolist(), strict=True):
        yield f"{source}\t{target}\t{score:.6g}\n"
