"""A linear model of classes, for networks to be held against: what do the features alone tell?

Legend: T training nodes, X features, C classes, P penalties.
"""

from __future__ import annotations

import warnings

import numpy as np

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
