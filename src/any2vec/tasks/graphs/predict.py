"""Classes of the nodes of a graph, old nodes or new ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from any2vec.data.attributed.graph import AttributedGraph, is_attributed
from any2vec.data.attributed.predictions import classes_said
from any2vec.errors import InputError
from any2vec.models.networks.classifier import NetworkClassifier


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
