"""A trained GA-MLP, ready to tell classes of nodes, of the graph that it was trained on or of another one.

Legend: N nodes, X columns of the augmented features, O outputs of a layer, C classes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from any2vec.checks import parse_json
from any2vec.data.graph.augment import Features, Own, PageRank, Powers, Psi, UserPsi, multiply
from any2vec.errors import FormatError, InputError
from any2vec.formats.safetensors_file import read_safetensors, write_safetensors
from any2vec.models.layers.activation import activation
from any2vec.models.layers.ga_mlp import CLASSIFIER, GAMLP
from any2vec.models.layers.weights import Weights, forward


def psi_of(model: GAMLP, own: UserPsi | None) -> Psi:
    """The functions of the adjacency that a model has; own: the user's, which go first."""
    if own is not None:
        return Own(own)
    return Powers(model.hops) if model.psi == "powers" else PageRank(model.restart, model.hops)


def row_sums_to_one(features: Features) -> Features:
    """Each row over the sum of its absolute values; a row of zeros stays."""
    sums = np.asarray(abs(features).sum(axis=1, dtype=np.float64)).ravel()
    scale_N = np.divide(1.0, sums, out=np.zeros(len(sums)), where=sums > 0).astype(np.float32)
    if sparse.issparse(features):
        return sparse.csr_array(sparse.diags_array(scale_N) @ features).astype(np.float32)
    return features * scale_N[:, None]


class NodeClassifier:
    """Predicts the classes of nodes.

    Args:
        weights: of the layers; the first one's take features as they come.
        classes: names of the C classes.
        psi: the user's functions of the adjacency, where it was trained with such.
    """

    def __init__(
        self, model: GAMLP, weights: Sequence[Weights], classes: Sequence[str], psi: UserPsi | None = None,
        has_own_psi: bool | None = None,
    ) -> None:  # fmt: skip
        self.model = model
        self.weights = list(weights)
        self.classes = list(classes)
        self.psi = psi
        self._has_own_psi = psi is not None if has_own_psi is None else has_own_psi

    def answer(self, adjacency: sparse.csr_array, features: Features) -> tuple[np.ndarray, np.ndarray]:
        """(vectors of all nodes, float32 (N, width): the last hidden layer's; scores of their classes, (N, C)).

        A clean forward pass; adjacency: normalized, see `data.graph.augment.normalized_adjacency`; memory O(N width).

        Raises:
            InputError: the features do not have as many columns as those of the training; or psi is missing.
        """
        if self._has_own_psi and self.psi is None:
            raise InputError("This classifier was trained with functions psi of your own; give them again, psi.")
        w_XO, b_O = self.weights[0]
        psi = psi_of(self.model, self.psi)
        num_features = features.shape[1]
        if not num_features or w_XO.shape[0] % num_features or (
            not self._has_own_psi and w_XO.shape[0] != num_features * self._num_blocks
        ):  # fmt: skip
            raise InputError(
                f"The classifier takes {w_XO.shape[0]:,} columns, {self._num_blocks or 'some'} times the features, got "
                f"{num_features:,} features."
            )
        if self.model.normalize == "row":
            features = row_sums_to_one(features)
        return forward(self.weights, multiply(adjacency, features, psi, w_XO) + b_O, activation(self.model.activation))

    @property
    def _num_blocks(self) -> int:
        if self._has_own_psi:
            return 0
        return self.model.hops + 1 if self.model.psi == "powers" else 2

    def write(self, path: Path) -> None:
        """Write it to the file `path`."""
        tensors: dict[str, np.ndarray] = {}
        for layer, (w_IO, b_O) in enumerate(self.weights):
            tensors |= {f"layer{layer}.w": w_IO, f"layer{layer}.b": b_O[None]}
        about = {"model": self.model.as_dict(), "classes": self.classes, "own_psi": self._has_own_psi}
        with path.open("wb") as file:
            write_safetensors(file, tensors, "float32", {"any2vec": json.dumps(about)})

    @classmethod
    def load(cls, folder: Path | str, psi: UserPsi | None = None) -> NodeClassifier:
        """Open the folder of a finished run.

        Raises:
            FormatError: it is none of a node classifier, or damaged.
        """
        file = Path(folder) / CLASSIFIER
        if not file.exists():
            raise FormatError(f"{folder} holds no node classifier; give the folder of a finished run of one.")
        try:
            tensors, metadata = read_safetensors(file, mmap=False)
            about = parse_json(metadata["any2vec"])
            model, classes = node_model(about["model"]), [str(name) for name in about["classes"]]
            layers = range(model.num_layers)
            weights = [Weights(tensors[f"layer{at}.w"], tensors[f"layer{at}.b"][0]) for at in layers]
        except (FormatError, InputError, OSError, ValueError, TypeError) as error:
            raise FormatError(f"{file} is damaged: {error}") from error
        except KeyError as error:
            raise FormatError(f"{file} is damaged: it lacks {error}; train again.") from error
        sizes = [weight.w_IO.shape for weight in weights]
        is_chain = all(one[1] == other[0] for one, other in pairwise(sizes))
        if not is_chain or sizes[-1][1] != len(classes) or any(len(b_O) != w_IO.shape[1] for w_IO, b_O in weights):
            raise FormatError(f"{file} is damaged: its layers do not fit each other; train again.")
        return cls(model, weights, classes, psi, bool(about.get("own_psi")))


def node_model(options: dict[str, Any]) -> GAMLP:
    """The model whose `as_dict` this is.

    Raises:
        FormatError: it is none that this version knows.
    """
    options = dict(options)
    if options.pop("model", None) != GAMLP.name or set(options) - {item.name for item in fields(GAMLP)}:
        raise FormatError("The options are not of a node classifier of this version of any2vec.")
    return GAMLP(**options)
