"""A score of triples written with PyTorch, which finds its gradients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
import torch

from any2vec.models.triples.score import Dense, Gradients, Score


class TorchScore(Score):
    """A score by autograd (abstract). It has no state: what it learns are rows and dense parameters."""

    @abstractmethod
    def scores(
        self, entity_QD: torch.Tensor, relation_QP: torch.Tensor, candidate_KD: torch.Tensor,
        dense: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:  # fmt: skip
        """Scores (Q, K), differentiable."""

    def forward(
        self, entity_QD: np.ndarray, relation_QP: np.ndarray, candidate_KD: np.ndarray, dense: Dense
    ) -> np.ndarray:
        rows = _leaf(entity_QD), _leaf(relation_QP), _leaf(candidate_KD)
        parameters = {name: _leaf(array) for name, array in dense.items()}
        self._scores, self._names = self.scores(*rows, parameters), list(parameters)
        self._leaves = [*rows, *parameters.values()]
        return self._scores.detach().numpy().copy()

    def backward(self, gradient_QK: np.ndarray) -> Gradients:
        found = torch.autograd.grad(
            self._scores, self._leaves, torch.from_numpy(gradient_QK), allow_unused=True, materialize_grads=True
        )
        entity_QD, relation_QP, candidate_KD, *others = (gradient.numpy() for gradient in found)
        return Gradients(entity_QD, relation_QP, candidate_KD, dict(zip(self._names, others, strict=True)))


def _leaf(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).requires_grad_()  # a copy: arrays may be mapped read-only
