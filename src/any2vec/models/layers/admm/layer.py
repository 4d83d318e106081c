"""One layer of pdADMM-G: what it holds, and its part of an iteration. It knows its neighbors by what they said last.

The order in which an iteration takes the blocks (arXiv 2105.09837, algorithm 1), in all layers at once, is p, W, b, z,
q, u. p goes back to the layer below, q and u go up. Legend as in `models.layers.admm.blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from any2vec.cluster.grid import Grid
from any2vec.models.layers.activation import Activation, z_objective
from any2vec.models.layers.admm.blocks import (
    Steps,
    b_update,
    dot,
    p_update,
    q_objective,
    q_update,
    square,
    u_update,
    w_update,
)
from any2vec.models.layers.admm.last import last_objective, last_update, risk
from any2vec.models.layers.weights import linear
from any2vec.types import State

MONITORS = (
    "fit", "between", "decay", "risk", "residual", "fell_p", "fell_w", "fell_b", "fell_z", "fell_q", "rose_u",
)  # fmt: skip
"""of each layer after each iteration: the terms of the Lagrangian (fit nu / 2 |z - a|^2; between two layers, see
`q_objective`; decay / 2 |W|^2; risk), |p - q|^2 towards the next layer, and what each block took off the Lagrangian"""


@dataclass(frozen=True)
class Penalties:
    """The weights of an iteration."""

    nu: float
    rho: float
    decay: float


@dataclass(frozen=True)
class LayerRules:
    """What does not change from iteration to iteration."""

    f: Activation
    steps: Steps
    input_grid: Grid | None
    """of p; None: not quantized"""
    left_grid: Grid | None
    """of q of the layer below"""
    output_grid: Grid | None
    """of q"""
    next_grid: Grid | None
    """of p of the layer above"""
    fista_steps: int
    tolerance: float


class Layer:
    """Layer `index` of a network.

    Args:
        p_TI: its input; of the first layer the features, which never change.
        label_T: int64 (T,), of the last layer, None elsewhere.
        reach: largest |f(a)| of the forward pass that its output's grid was calibrated by.

    It starts where a forward pass leaves it: z = a, q = f(z), u = 0, so that u = nu (q - f(z)) from the beginning.
    """

    def __init__(
        self, index: int, w_IO: np.ndarray, b_O: np.ndarray, p_TI: np.ndarray, label_T: np.ndarray | None,
        rules: LayerRules, reach: float = 0.0,
    ) -> None:  # fmt: skip
        self.index = index
        self.rules = rules
        self.reach = reach
        self.label_T = label_T
        self.w_IO, self.b_O, self.p_TI = w_IO, b_O, p_TI
        self.a_TO = linear(p_TI, w_IO, b_O)
        self.z_TO = self.a_TO
        self.q_TO = _on(rules.output_grid, rules.f(self.z_TO)) if label_T is None else None
        self.u_TO = np.zeros_like(self.z_TO) if label_T is None else None
        self.left_q_TI: np.ndarray | None = None
        """q of the layer below, as it said last; None: there is none"""
        self.left_u_TI: np.ndarray | None = None
        self.tau = self.theta = 0.0
        """of the last steps of p and of W; 0: the block has kept its value"""
        self.monitor = dict.fromkeys(MONITORS, 0.0)

    def on_work(self, q_TI: np.ndarray, u_TI: np.ndarray) -> None:
        """Take q and u of the layer below."""
        self.left_q_TI, self.left_u_TI = q_TI, u_TI

    def left_u(self, q_TI: np.ndarray, rho: float) -> np.ndarray:
        """What u of the layer below is now that its q is this: computed as it does itself, from the same numbers."""
        assert self.left_u_TI is not None
        return u_update(self.left_u_TI, self.p_TI, q_TI, rho)

    def move_input(self, now: Penalties) -> None:
        """p. The first layer's stays."""
        self.monitor = dict.fromkeys(MONITORS, 0.0)
        if self.left_q_TI is None or self.left_u_TI is None:
            return
        moved = p_update(
            self.p_TI, self.w_IO, self.b_O, self.z_TO, self.left_q_TI, self.left_u_TI, now.nu, now.rho,
            self.rules.steps, self.rules.input_grid, self.a_TO,
        )  # fmt: skip
        self.p_TI, self.tau = moved.value, moved.tau
        self.monitor["fell_p"] = moved.decrease

    def move_inside(self, now: Penalties) -> None:
        """W, b and z."""
        moved = w_update(self.w_IO, self.p_TI, self.b_O, self.z_TO, now.nu, now.decay, self.rules.steps)
        self.w_IO, self.theta = moved.value, moved.tau
        product_TO = self.p_TI @ self.w_IO
        b_O = b_update(product_TO, self.z_TO)
        self.monitor["fell_w"] = moved.decrease
        self.monitor["fell_b"] = 0.5 * now.nu * len(self.p_TI) * square((b_O - self.b_O)[None])
        self.b_O = b_O
        self.a_TO = product_TO + b_O
        old = self.z_TO
        if self.label_T is not None:
            rules = self.rules
            self.z_TO = last_update(old, self.a_TO, self.label_T, now.nu, rules.fista_steps, rules.tolerance)
            before = last_objective(old, self.a_TO, self.label_T, now.nu)
            self.monitor["fell_z"] = before - last_objective(self.z_TO, self.a_TO, self.label_T, now.nu)
            self.monitor["risk"] = risk(self.z_TO, self.label_T)
        else:
            assert self.q_TO is not None
            f = self.rules.f
            self.z_TO = f.best_z(old, self.a_TO, self.q_TO)
            before_TO = z_objective(old, old, self.a_TO, self.q_TO, f(old))
            after_TO = z_objective(self.z_TO, self.z_TO, self.a_TO, self.q_TO, f(self.z_TO))
            self.monitor["fell_z"] = 0.5 * now.nu * float((before_TO - after_TO).sum(dtype=np.float64))
        self.monitor["fit"] = 0.5 * now.nu * square(self.z_TO - self.a_TO)
        self.monitor["decay"] = 0.5 * now.decay * square(self.w_IO)

    def move_output(self, next_p_TO: np.ndarray, now: Penalties) -> None:
        """q and u, from the next layer's p; not of the last layer."""
        assert self.q_TO is not None and self.u_TO is not None
        f_TO = self.rules.f(self.z_TO)
        before = q_objective(self.q_TO, next_p_TO, self.u_TO, f_TO, now.nu, now.rho)
        self.q_TO = _on(self.rules.output_grid, q_update(next_p_TO, self.u_TO, f_TO, now.nu, now.rho))
        after = q_objective(self.q_TO, next_p_TO, self.u_TO, f_TO, now.nu, now.rho)
        self.monitor["fell_q"] = before - after
        self.u_TO = u_update(self.u_TO, next_p_TO, self.q_TO, now.rho)
        gap_TO = next_p_TO - self.q_TO
        self.monitor["residual"] = square(gap_TO)
        self.monitor["rose_u"] = now.rho * self.monitor["residual"]
        self.monitor["between"] = (
            0.5 * now.nu * square(self.q_TO - f_TO) + dot(self.u_TO, gap_TO) + 0.5 * now.rho * square(gap_TO)
        )

    def state_dict(self) -> State:
        """What a checkpoint keeps of it, two-dimensional: hosts send it to each other, too."""
        held = {"w": self.w_IO, "b": self.b_O[None], "z": self.z_TO, "q": self.q_TO, "u": self.u_TO}
        held["reach"] = np.array([[self.reach]], self.w_IO.dtype)
        if self.left_q_TI is not None:
            held["p"] = self.p_TI
        return {name: array for name, array in held.items() if array is not None}

    def load_state_dict(self, state: State, below: State | None) -> None:
        """Go on from a state; below: that of the layer below."""
        self.w_IO, self.b_O, self.z_TO = state["w"], state["b"][0], state["z"]
        self.q_TO, self.u_TO = state.get("q"), state.get("u")
        if below is not None:
            self.p_TI = state["p"]
            self.on_work(below["q"], below["u"])
        self.a_TO = linear(self.p_TI, self.w_IO, self.b_O)


def _on(grid: Grid | None, array: np.ndarray) -> np.ndarray:
    return array if grid is None else grid.nearest(array)


def lagrangian(monitors: list[dict[str, float]]) -> float:
    """The augmented Lagrangian, from what all layers, in their order, noted after an iteration."""
    return sum(each["fit"] + each["between"] + each["decay"] + each["risk"] for each in monitors)
