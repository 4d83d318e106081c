"""pdADMM-G's updates: each makes its objective smallest or smaller, and together they keep the paper's promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from any2vec.cluster.grid import Grid, even_grid
from any2vec.cluster.threads import single_host_transport
from any2vec.models.layers.activation import activation, z_objective
from any2vec.models.layers.admm import blocks
from any2vec.models.layers.admm.group import AdmmGroup
from any2vec.models.layers.admm.last import last_objective, last_update, risk, risk_gradient
from any2vec.models.layers.admm.layer import Penalties, lagrangian
from any2vec.models.layers.admm.network import Quantized, make_layers
from any2vec.models.layers.neighbors import Neighbors
from any2vec.models.layers.weights import forward, grow, start_weights

NU, RHO, DECAY = 0.3, 0.7, 0.2
RANDOM = np.random.default_rng(0)


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [RANDOM.standard_normal(shape) for shape in shapes]


def slope(function: Any, at: np.ndarray) -> np.ndarray:
    """The gradient of a function of an array, by central differences."""
    found, step = np.zeros_like(at), 1e-6
    for place in np.ndindex(at.shape):
        moved = at.copy()
        moved[place] += step
        above = function(moved)
        moved[place] -= 2 * step
        found[place] = (above - function(moved)) / (2 * step)
    return found


@pytest.mark.parametrize("start", [None, 20.0, 1e-5])
def test_p_and_w_step_against_the_gradient_as_far_as_the_majorization_allows(start: float | None) -> None:
    p, w, b, z, q, u = arrays((6, 4), (4, 3), (3,), (6, 3), (6, 4), (6, 4))
    steps = blocks.Steps(start)
    of_p = lambda p: blocks.p_objective(p, w, b, z, q, u, NU, RHO)  # noqa: E731
    of_w = lambda w: blocks.w_objective(w, p, b, z, NU, DECAY)  # noqa: E731
    for objective, at, moved in (
        (of_p, p, blocks.p_update(p, w, b, z, q, u, NU, RHO, steps)),
        (of_w, w, blocks.w_update(w, p, b, z, NU, DECAY, steps)),
    ):
        gradient, change = slope(objective, at), moved.value - at
        np.testing.assert_allclose(change, -gradient / moved.tau, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(moved.decrease, objective(at) - objective(moved.value), rtol=1e-9)
        assert moved.decrease >= moved.tau / 2 * (change**2).sum() * (1 - 1e-5)
        if start is None:  # no longer step along the gradient has a majorant: half of tau has none
            assert (
                objective(at - 1.01 / moved.tau * gradient)
                > objective(at) - 1.01 / (2 * moved.tau) * (gradient**2).sum()
            )
        elif start < 1:  # the doubling found it: half as much would not do
            longer = at - 2 / moved.tau * gradient
            assert objective(longer) > objective(at) - (gradient**2).sum() / moved.tau


def test_a_step_that_finds_no_length_keeps_the_block() -> None:
    p, w, b, z = arrays((6, 4), (4, 3), (3,), (6, 3))
    moved = blocks.w_update(w, p, b, z, NU, DECAY, blocks.Steps(1e-9, tries=3))
    assert moved.value is w and moved.tau == moved.decrease == 0


def test_p_on_a_grid_goes_to_the_nearest_values_and_never_uphill() -> None:
    w, b, z, q, u = arrays((4, 3), (3,), (6, 3), (6, 4), (6, 4))
    grid = even_grid(4, -2, 2)
    p = grid.nearest(RANDOM.standard_normal((6, 4)))
    objective = lambda p: blocks.p_objective(p, w, b, z, q, u, NU, RHO)  # noqa: E731
    for _ in range(5):
        gradient = slope(objective, p)
        moved = blocks.p_update(p, w, b, z, q, u, NU, RHO, blocks.Steps(1.0), grid)
        wanted = p - gradient / moved.tau
        near = grid.values_G[np.abs(wanted[..., None] - grid.values_G).argmin(axis=-1)]
        np.testing.assert_array_equal(moved.value, near)
        np.testing.assert_allclose(moved.decrease, objective(p) - objective(moved.value), rtol=1e-6, atol=1e-9)
        assert moved.decrease >= 0
        p = moved.value


def test_b_and_q_are_where_their_objectives_are_flat() -> None:
    p, w, z, q, u, p_next, f = arrays((6, 4), (4, 3), (6, 3), (6, 3), (6, 3), (6, 3), (6, 3))
    b = blocks.b_update(p @ w, z)
    np.testing.assert_allclose(slope(lambda b: blocks.w_objective(w, p, b, z, NU), b), 0, atol=1e-8)
    q = blocks.q_update(p_next, u, f, NU, RHO)
    np.testing.assert_allclose(slope(lambda q: blocks.q_objective(q, p_next, u, f, NU, RHO), q), 0, atol=1e-8)
    np.testing.assert_allclose(blocks.u_update(u, p_next, q, RHO), NU * (q - f), atol=1e-12)  # Lemma 4


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid"])
def test_z_is_the_best_of_very_many(name: Any) -> None:
    f = activation(name)
    old, a, q = 2 * RANDOM.standard_normal((3, 400))
    z = f.best_z(old, a, q)
    tried = np.linspace(-12, 12, 24_001)
    best = (z_objective(tried[:, None], old, a, q, f(tried)[:, None])).min(axis=0)
    assert (z_objective(z, old, a, q, f(z)) <= best + 1e-9).all()
    np.testing.assert_allclose(f.slope, np.abs(np.diff(f(tried)) / np.diff(tried)).max(), rtol=1e-3)


def test_the_last_z_has_no_gradient_left_and_softmax_does_not_overflow() -> None:
    (a,) = arrays((8, 5))
    a *= 30
    label = RANDOM.integers(0, 5, 8)
    gradient = slope(lambda z: risk(z, label), a)
    np.testing.assert_allclose(risk_gradient(a, label), gradient, atol=1e-5)
    z = last_update(np.zeros_like(a), a, label, 0.01, steps=2000, tolerance=1e-12)
    assert np.abs(risk_gradient(z, label) + 0.01 * (z - a)).max() < 1e-11
    assert last_objective(z, a, label, 0.01) <= min(
        last_objective(z + moved, a, label, 0.01) for moved in (1e-4 * RANDOM.standard_normal((50, 8, 5)))
    )
    assert np.isfinite(risk(1e4 * a, label)) and np.isfinite(risk_gradient(1e4 * a, label)).all()


def layers_of(num_layers: int, steps: blocks.Steps, quantized: Quantized | None = None, f: Any = "relu") -> Any:
    """A network of 10 neurons a layer on 30 made-up nodes, float64."""
    random = np.random.default_rng(1)
    x, label = random.standard_normal((30, 25)), random.integers(0, 3, 30)
    weights = start_weights([25, *[10] * (num_layers - 1), 3], 1, np.float64)
    weights = [weight._replace(w_IO=4 * weight.w_IO) for weight in weights]
    return make_layers(
        weights, x, label, activation(f), steps, quantized, 0, num_layers, fista_steps=2000, tolerance=1e-12
    )


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_in_the_theorys_regime_the_lagrangian_falls_by_lemma_1_and_lemma_4_holds(name: Any) -> None:
    """100 iterations, 10 layers, rho > 4 nu S^2. Lemma 1's constants: C1 = nu/2 - 2 nu^2 S^2/rho for z, C2 for q.

    The dual's rise is what C1 and C2 have paid for: |du|^2 / rho <= 2 nu^2 / rho (|dq|^2 + S^2 |dz|^2).
    """
    nu, rho, decay = 0.01, 1.0, 0.02
    f = activation(name)
    c1, c2 = nu / 2 - 2 * nu**2 * f.slope**2 / rho, rho / 2 - 2 * nu**2 / rho - nu / 2
    assert rho > 4 * nu and c1 > 0 and c2 > 0
    layers = layers_of(10, blocks.Steps(), f=name)
    group = AdmmGroup(layers, single_host_transport(), Neighbors(None, None))
    now, before, first = Penalties(nu, rho, decay), None, 0.0
    for _ in range(101):
        held = [(layer.p_TI, layer.w_IO, layer.b_O, layer.z_TO, layer.q_TO) for layer in layers]
        group.iterate(now)
        value = lagrangian([layer.monitor for layer in layers])
        np.testing.assert_allclose(value, by_hand(layers, f, now), rtol=1e-12)
        amount = 0.0
        for layer, (p, w, b, z, q) in zip(layers, held, strict=True):
            amount += layer.tau / 2 * square(layer.p_TI - p) + layer.theta / 2 * square(layer.w_IO - w)
            amount += nu / 2 * square(layer.b_O - b)
            if q is not None:
                assert layer.q_TO is not None
                amount += c1 * square(layer.z_TO - z) + c2 * square(layer.q_TO - q)
                np.testing.assert_allclose(layer.u_TO, nu * (layer.q_TO - f(layer.z_TO)), atol=1e-12)
            else:
                amount += nu / 2 * square(layer.z_TO - z)
        if before is not None:
            assert amount > 0 and before - value >= amount * (1 - 1e-5) - 1e-12 * abs(value)
            reported = sum(
                layer.monitor[name] * (-1 if name == "rose_u" else 1)
                for layer in layers
                for name in ("fell_p", "fell_w", "fell_b", "fell_z", "fell_q", "rose_u")
            )
            np.testing.assert_allclose(reported, before - value, rtol=1e-6, atol=1e-11)
        else:
            first = value
        before = value
    assert value < 0.9 * first


def square(array: np.ndarray) -> float:
    return float((array**2).sum())


def by_hand(layers: Any, f: Any, now: Penalties) -> float:
    """The Lagrangian of problem 2, straight from its definition."""
    value = risk(layers[-1].z_TO, layers[-1].label_T)
    for layer, above in zip(layers, [*layers[1:], None], strict=True):
        value += now.nu / 2 * square(layer.z_TO - layer.p_TI @ layer.w_IO - layer.b_O)
        value += now.decay / 2 * square(layer.w_IO)
        if above is not None:
            gap = above.p_TI - layer.q_TO
            value += now.nu / 2 * square(layer.q_TO - f(layer.z_TO)) + (layer.u_TO * gap).sum()
            value += now.rho / 2 * square(gap)
    return float(value)


def test_with_p_on_a_grid_the_lagrangian_still_never_rises() -> None:
    layers = layers_of(5, blocks.Steps(), Quantized(True, False, 8))
    group, values = AdmmGroup(layers, single_host_transport(), Neighbors(None, None)), []
    for _ in range(60):
        group.iterate(Penalties(0.01, 1.0, 0.0))
        values.append(lagrangian([layer.monitor for layer in layers]))
        for layer in layers[1:]:
            assert np.isin(layer.p_TI, layer.rules.input_grid.values_G.astype(np.float64)).all()
    assert (np.diff(values) <= 1e-10).all() and values[-1] < values[0]


def test_the_printed_step_length_hardly_moves_and_a_searched_one_learns() -> None:
    """rho = nu = 1e-4 with tau from 20, as published: steps are 1e-4 / 20 of the gradient."""
    risks = []
    for steps in (blocks.Steps(20.0, tries=10), blocks.Steps()):
        layers = layers_of(2, steps)
        group = AdmmGroup(layers, single_host_transport(), Neighbors(None, None))
        start = layers[0].w_IO
        for _ in range(50):
            group.iterate(Penalties(1e-4, 1e-4, 0.0))
        risks.append((layers[-1].monitor["risk"], square(layers[0].w_IO - start)))
    assert risks[0][1] < 1e-6 < 1e-3 < risks[1][1]


def test_growth_changes_no_answer() -> None:
    f, x = activation("relu"), RANDOM.standard_normal((9, 5))
    weights = start_weights([5, 8, 3], 1, np.float64)
    hidden, answer = forward(weights, x @ weights[0].w_IO, f)
    grown = grow(weights, 7)
    assert len(grown) == 7
    after_hidden, after = forward(grown, x @ grown[0].w_IO, f)
    np.testing.assert_array_equal(after, answer)
    np.testing.assert_array_equal(after_hidden, hidden)


def test_grids() -> None:
    grid = Grid(np.arange(-1, 21))
    assert grid.values_G.size == 22 and grid.code is np.uint8
    np.testing.assert_array_equal(grid.nearest(np.array([-9.0, -0.6, 0.4, 19.6, 99.0])), [-1, -1, 0, 20, 20])
    numbers = RANDOM.standard_normal((7, 3)).astype(np.float32)
    for bits, dtype in ((8, np.uint8), (16, np.uint16)):
        even = even_grid(bits, -1, 1)
        assert even.values_G.size == 1 << bits and even.pack(numbers).array.dtype == dtype
        near = even.nearest(numbers)
        assert np.abs(near - numbers.clip(-1, 1)).max() <= 1 / ((1 << bits) - 1) * (1 + 1e-3)
        np.testing.assert_array_equal(even.unpack(even.pack(near), np.float32), near)
    odd = Grid([-3.0, 0.0, 0.5])
    np.testing.assert_array_equal(odd.nearest(np.array([-1.6, -1.4, 0.2, 0.3])), [-3, 0, 0, 0.5])
