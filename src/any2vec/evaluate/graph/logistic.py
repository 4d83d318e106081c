"""One-vs-rest logistic regression for all labels at once, by Newton steps that share every matrix product.

The same objective as scikit-learn's LogisticRegression(C=1): the sum of log losses + |w|² / (2 C), intercept free.
Letters: N rows, D features, L labels. Source: ours (truncated Newton; Nocedal and Wright 2006, algorithm 7.1).
"""

from __future__ import annotations

import warnings

import numpy as np

_NEWTON_STEPS = 40
_CG_STEPS = 60


def _log_loss(margins_NL: np.ndarray, truth_NL: np.ndarray) -> np.ndarray:
    """Sum over rows of log(1 + exp(m)) - y m, (L,)."""
    return (np.logaddexp(0.0, margins_NL) - truth_NL * margins_NL).sum(axis=0)


def _newton_direction(
    x_ND: np.ndarray,
    curvature_NL: np.ndarray,
    gradient_DL: np.ndarray,
    ridge_D1: np.ndarray,
    preconditioner_DL: np.ndarray,
) -> np.ndarray:
    """Solve (Xᵀ diag(curvature_l) X + ridge) d_l = -gradient_l for each label by preconditioned conjugate gradients.

    In float32, x_ND too: the direction need not be exact, and the gradient it starts from is float64.
    """
    curvature_NL = curvature_NL.astype(np.float32)
    ridge_D1, preconditioner_DL = ridge_D1.astype(np.float32), preconditioner_DL.astype(np.float32)
    direction = np.zeros(gradient_DL.shape, dtype=np.float32)
    residual = -gradient_DL.astype(np.float32)
    scaled = residual / preconditioner_DL
    search = scaled.copy()
    product = (residual * scaled).sum(axis=0)
    goal = product * 1e-2  # residual at a tenth of the gradient: a later Newton step costs less than a better one
    for _ in range(_CG_STEPS):
        image = x_ND.T @ (curvature_NL * (x_ND @ search)) + ridge_D1 * search
        bend = (search * image).sum(axis=0)
        step = np.divide(product, bend, out=np.zeros_like(product), where=bend > 0)
        direction += step * search
        residual -= step * image
        scaled = residual / preconditioner_DL
        following = (residual * scaled).sum(axis=0)
        if (following <= goal).all():
            break
        search = scaled + np.divide(following, product, out=np.zeros_like(product), where=product > 0) * search
        product = following
    return direction.astype(np.float64)


def fit_logistic(
    features_ND: np.ndarray, truth_NL: np.ndarray, c: float = 1.0, tolerance: float = 1e-6
) -> tuple[np.ndarray, np.ndarray]:
    """Weights float64 (D, L) and intercepts (L,) of L independent classifiers.

    A label that no row has gets weights 0 and intercept -inf, one that all rows have +inf.
    tolerance: largest gradient entry of the mean loss at the end. Deterministic. Time O(steps · N D L).
    """
    x = np.asarray(features_ND, dtype=np.float64)
    truth = np.asarray(truth_NL, dtype=np.float64)
    positives = truth.sum(axis=0)
    weights, intercepts = np.zeros((x.shape[1], truth.shape[1])), np.full(truth.shape[1], -np.inf)
    intercepts[positives == len(x)] = np.inf
    mixed = np.flatnonzero((positives > 0) & (positives < len(x)))
    if len(mixed) == 0:
        return weights, intercepts
    mean = x.mean(axis=0)
    # In the principal axes of the centerd features the Hessian is nearly diagonal: conjugate gradients need few steps.
    spread, axes = np.linalg.eigh((x - mean).T @ (x - mean))
    turned = np.column_stack([(x - mean) @ axes, np.ones(len(x))])
    diagonal = np.append(np.maximum(spread, 0.0), len(x))[:, None]
    ridge = np.append(np.full(x.shape[1], 1.0 / c), 0.0)[:, None]
    solution = _solve(turned, truth[:, mixed], diagonal, ridge, tolerance * len(x))
    weights[:, mixed] = axes @ solution[:-1]
    intercepts[mixed] = solution[-1] - mean @ weights[:, mixed]
    return weights, intercepts


def _solve(
    x_ND: np.ndarray, truth_NL: np.ndarray, diagonal_D1: np.ndarray, ridge_D1: np.ndarray, goal: float
) -> np.ndarray:
    """Newton steps with halving, each label on its own; labels leave when their gradient is below `goal`."""
    share = truth_NL.mean(axis=0)
    solution = np.zeros((x_ND.shape[1], truth_NL.shape[1]))
    solution[-1] = np.log(share / (1 - share))
    active = np.arange(truth_NL.shape[1])
    margins = x_ND @ solution
    rough_ND = x_ND.astype(np.float32)
    for _ in range(_NEWTON_STEPS):
        truth, current = truth_NL[:, active], solution[:, active]
        chance = 0.5 * (1.0 + np.tanh(0.5 * margins))
        gradient = x_ND.T @ (chance - truth) + ridge_D1 * current
        going = np.abs(gradient).max(axis=0) > goal
        if not going.any():
            break
        if not going.all():
            active, margins, truth = active[going], margins[:, going], truth[:, going]
            current, chance, gradient = current[:, going], chance[:, going], gradient[:, going]
        curvature = chance * (1.0 - chance)
        preconditioner = diagonal_D1 * curvature.mean(axis=0) + ridge_D1 + 1e-12
        direction = _newton_direction(rough_ND, curvature, gradient, ridge_D1, preconditioner)
        slope = (gradient * direction).sum(axis=0)
        change = x_ND @ direction
        before = _log_loss(margins, truth) + 0.5 * (ridge_D1 * current**2).sum(axis=0)
        step = np.ones(len(active))
        for _ in range(30):
            moved = current + step * direction
            after = _log_loss(margins + step * change, truth) + 0.5 * (ridge_D1 * moved**2).sum(axis=0)
            high = after > before + 1e-4 * step * slope + 1e-12 * np.abs(before)
            if not high.any():
                break
            step[high] *= 0.5
        solution[:, active] = current + step * direction
        margins = margins + step * change
    return solution


PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""values of C, the weight of the training loss beside |w|^2 / 2"""


def linear_models(x_TX: np.ndarray, label_T: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Multinomial logistic regression for each of PENALTIES: weights float32 (X, P, C) and intercepts (P, C).

    scikit-learn's, by L-BFGS, on two classes or more. A class that no node has gets intercept -inf.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    w_XPC = np.zeros((x_TX.shape[1], len(PENALTIES), num_classes), np.float32)
    b_PC = np.full((len(PENALTIES), num_classes), -np.inf, np.float32)
    known = np.unique(label_T)
    for place, penalty in enumerate(PENALTIES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # near enough to be compared with
            model = LogisticRegression(C=penalty, max_iter=2000).fit(x_TX, label_T)
        if len(known) == 2:  # one column tells both
            w_XPC[:, place, known[1]], b_PC[place, known] = model.coef_[0], (0.0, float(model.intercept_[0]))
        else:
            w_XPC[:, place, known], b_PC[place, known] = model.coef_.T, model.intercept_
    return w_XPC, b_PC
