"""A host's copy of the dense parameters of a model: one flat array, which worker threads and agreements share."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from any2vec.kernels.replicas.dense_steps import adagrad_dense, adam_dense, sgd_dense
from any2vec.tables.row_optimizer import BETA1, BETA2


class Stepped(Protocol):
    """Dense parameters that go by steps, whoever takes them."""

    value: np.ndarray
    """float32 (Q,)"""
    state: dict[str, np.ndarray]
    """of their optimizer"""

    def step(self, gradient_Q: np.ndarray) -> None: ...


class Replica:
    """Q dense parameters and the state of their optimizer; nothing is locked (Hogwild), and addresses are fixed.

    Args:
        value_Q: float32 (Q,), kept.
    """

    def __init__(
        self, value_Q: np.ndarray, kind: Literal["adagrad", "adam", "sgd"] = "adagrad", rate: float = 0.05,
        epsilon: float = 1e-8,
    ) -> None:  # fmt: skip
        self.value = value_Q
        self.kind = kind
        self.rate = rate
        self.epsilon = epsilon
        self.count = 0
        """steps so far; threads that race for it may miss one"""
        names = {"sgd": (), "adagrad": ("square",), "adam": ("mean", "square")}[kind]
        self.state = {name: np.zeros_like(value_Q) for name in names}

    def step(self, gradient_Q: np.ndarray) -> None:
        """Change the parameters in place by a gradient, float32 (Q,)."""
        self.count += 1
        if self.kind == "sgd":
            sgd_dense(self.value, gradient_Q, self.rate)
        elif self.kind == "adagrad":
            adagrad_dense(self.value, self.state["square"], gradient_Q, self.rate, self.epsilon)
        else:
            mean, square = self.state["mean"], self.state["square"]
            adam_dense(self.value, mean, square, gradient_Q, self.count, self.rate, BETA1, BETA2, self.epsilon)
