"""A network of layers for pdADMM-G: its layers, as a forward pass leaves them.

Legend as in `models.layers.admm.blocks`; X columns of the augmented features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from any2vec.cluster.grid import Grid, even_grid
from any2vec.models.layers.activation import Activation
from any2vec.models.layers.admm.blocks import Steps
from any2vec.models.layers.admm.layer import Layer, LayerRules
from any2vec.models.layers.weights import Weights, linear

_BELOW, _ABOVE = 0.25, 1.5
"""an even grid reaches from -0.25 (of an odd f -1.5) to 1.5 times the largest |f(z)| of the forward pass that it is
calibrated by"""


class Quantized(NamedTuple):
    """What is on a grid, and on which."""

    p: bool
    q: bool
    grid: Grid | int
    """the grid of all boundaries; or bits, for an even grid whose range is that boundary's own"""


def make_layers(
    weights: Sequence[Weights], x_TX: np.ndarray, label_T: np.ndarray, f: Activation, steps: Steps,
    quantized: Quantized | None, first: int, stop: int, fista_steps: int = 100, tolerance: float = 1e-6,
    reaches: Sequence[float] | None = None,
) -> list[Layer]:  # fmt: skip
    """Layers [first, stop) of a network, as a forward pass leaves them; even grids calibrated by it, or by `reaches`.

    Two hosts that make neighboring layers agree on what lies between them without a word.

    reaches: `Layer.reach` of all layers, of a run that goes on.
    """
    layers: list[Layer] = []
    p_TI, below_grid, below = x_TX, None, None
    has_p, has_q = quantized is not None and quantized.p, quantized is not None and quantized.q
    for index in range(stop):
        is_last = index == len(weights) - 1
        a_TO = linear(p_TI, *weights[index])
        reach = 0.0 if is_last else float(np.abs(f(a_TO)).max()) if reaches is None else reaches[index]
        grid = None if quantized is None or is_last else _grid(quantized, reach, f)
        rules = LayerRules(
            f=f, steps=steps, fista_steps=fista_steps, tolerance=tolerance,
            input_grid=below_grid if has_p else None, left_grid=below_grid if has_q else None,
            output_grid=grid if has_q else None, next_grid=grid if has_p else None,
        )  # fmt: skip
        layer = Layer(index, *weights[index], p_TI, label_T if is_last else None, rules, reach)
        if below is not None:
            assert below.q_TO is not None and below.u_TO is not None
            layer.on_work(below.q_TO, below.u_TO)
        if index >= first:
            layers.append(layer)
        if not is_last:
            assert layer.q_TO is not None
            p_TI, below_grid, below = layer.q_TO, grid, layer
            if grid is not None and has_p:
                p_TI = grid.nearest(p_TI)
    return layers


def _grid(quantized: Quantized, reach: float, f: Activation) -> Grid:
    if isinstance(quantized.grid, Grid):
        return quantized.grid
    most = reach or 1.0
    return even_grid(quantized.grid, -(_ABOVE if f.is_odd else _BELOW) * most, _ABOVE * most)
