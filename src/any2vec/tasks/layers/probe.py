"""How well a linear model tells the classes of nodes, on the features that a network is trained on.

Legend: N nodes, X columns of the augmented features, C classes, P penalties.
"""

from __future__ import annotations

import numpy as np

from any2vec.data.graph.augment import multiply
from any2vec.evaluate.graph.logistic import PENALTIES, linear_models
from any2vec.models.layers.classifier import psi_of, row_sums_to_one
from any2vec.tasks.layers.prepare import PreparedNodes


def probe_accuracies(prepared: PreparedNodes) -> dict[str, float | None]:
    """Accuracies of each part of the split, of the penalty that is best on the validation nodes (without any: C = 1).

    Among equally good ones the strongest. Memory O(N P C).
    """
    x_TX, scale = prepared.scaled
    model = prepared.model
    w_XPC, b_PC = linear_models(x_TX, prepared.label_N[prepared.rows["train"]], len(prepared.classes))
    features = row_sums_to_one(prepared.features) if model.normalise == "row" else prepared.features
    psi = psi_of(model, prepared.options.psi)
    w_XO = w_XPC.reshape(len(w_XPC), -1) * np.float32(scale)
    score_NPC = multiply(prepared.adjacency, features, psi, w_XO).reshape(-1, *b_PC.shape) + b_PC
    found = [prepared.accuracies(score_NPC[:, place].argmax(axis=1)) for place in range(len(PENALTIES))]
    if not len(prepared.rows["val"]):
        return found[PENALTIES.index(1.0)]
    return max(found, key=lambda accuracies: accuracies["val_accuracy"] or 0.0)
