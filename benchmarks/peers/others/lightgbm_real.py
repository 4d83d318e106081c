"""scikit-learn's logistic regression and LightGBM on one split of a real data set. Runs in the environment 'lightgbm'.

Both choose by the log-loss of the last tenth of the training file, and are then trained on all of it: logistic
regression its C (one-hot categories, log numbers scaled, a column for what is missing), LightGBM its number of trees
(categories as such, numbers as they are). One JSON line.
"""

from __future__ import annotations

import argparse
import csv
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

INVERSE_PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
MOST_TREES = 2000
TREE_RATE = 0.05


class Rows:
    """The columns of a file."""

    def __init__(self, path: str, columns: dict[str, Any]) -> None:
        with open(path, newline="") as file:  # noqa: PTH123
            reader = csv.reader(file, delimiter=columns["delimiter"], quoting=csv.QUOTE_NONE)
            names = columns["names"] or next(reader)
            table = dict(zip(names, zip(*reader, strict=True), strict=True))
        self.label = (np.array(table[columns["label"]], float) >= columns.get("label_from", 1)).astype(int)
        numbers = [[float(text) if text else np.nan for text in table[name]] for name in columns["dense"]]
        self.dense = np.array(numbers).reshape(len(numbers), len(self.label)).T
        self.single = [np.array(table[name]) for name in columns["categorical"]]
        self.several = [[text.split("|") if text else [] for text in table[name]] for name in columns["multi_valued"]]

    def part(self, rows: Any) -> Rows:
        found = object.__new__(Rows)
        found.label, found.dense = self.label[rows], self.dense[rows]
        found.single = [column[rows] for column in self.single]
        found.several = [[column[row] for row in rows] for column in self.several]
        return found


class Encoder:
    """Numbers for categories, as the training rows have them; a value that they lack is none of them."""

    def __init__(self, rows: Rows) -> None:
        self.values = [{value: number for number, value in enumerate(sorted(set(column)))} for column in rows.single]
        self.kinds = [sorted({value for bag in column for value in bag}) for column in rows.several]
        logs = self._logs(rows)
        self.mean, self.std = np.nan_to_num(np.nanmean(logs, axis=0)), np.nanstd(logs, axis=0)

    @staticmethod
    def _logs(rows: Rows) -> Any:
        return np.sign(rows.dense) * np.log1p(np.abs(rows.dense))

    def codes(self, rows: Rows) -> Any:
        found = [
            [known.get(value, -1) for value in column] for known, column in zip(self.values, rows.single, strict=True)
        ]
        return np.array(found, int).reshape(len(found), len(rows.label)).T

    def flags(self, rows: Rows) -> Any:
        """A column for each value of the multi-valued columns."""
        found = [
            [kind in bag for bag in column]
            for kinds, column in zip(self.kinds, rows.several, strict=True)
            for kind in kinds
        ]
        return np.array(found, float).reshape(len(found), len(rows.label)).T

    def wide(self, rows: Rows) -> Any:
        """Sparse, for the linear model."""
        codes, size = self.codes(rows), len(rows.label)
        parts = []
        for column, known in enumerate(self.values):
            has = np.flatnonzero(codes[:, column] >= 0)
            ones = (np.ones(len(has)), (has, codes[has, column]))
            parts.append(sparse.csr_matrix(ones, shape=(size, len(known))))
        scaled = (self._logs(rows) - self.mean) / np.where(self.std > 0, self.std, 1)
        parts += [sparse.csr_matrix(np.nan_to_num(scaled)), sparse.csr_matrix(np.isnan(scaled) * 1.0)]
        return sparse.hstack([*parts, sparse.csr_matrix(self.flags(rows))]).tocsr()

    def narrow(self, rows: Rows) -> Any:
        """Dense, for trees: codes first."""
        return np.hstack([self.codes(rows), rows.dense, self.flags(rows)])


def logistic(train: Rows, held: Rows | None, choice: Any) -> Any:
    """(the best C, its log-loss) on `held`; without it, a function from rows to probabilities."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    encoder = Encoder(train)

    def fit(inverse: float) -> Callable[[Rows], Any]:
        model = LogisticRegression(C=inverse, max_iter=2000).fit(encoder.wide(train), train.label)
        return lambda rows: model.predict_proba(encoder.wide(rows))[:, 1]

    if held is None:
        return fit(choice)
    return min(INVERSE_PENALTIES, key=lambda inverse: log_loss(held.label, fit(inverse)(held)))


def lightgbm(train: Rows, held: Rows | None, choice: Any, seed: int) -> Any:
    """The best number of trees on `held`; without it, a function from rows to probabilities."""
    import lightgbm as gbm

    encoder = Encoder(train)
    categories = list(range(len(encoder.values)))
    options = {"objective": "binary", "learning_rate": TREE_RATE, "seed": seed, "num_threads": 1, "verbosity": -1}
    data = gbm.Dataset(encoder.narrow(train), train.label, categorical_feature=categories)
    if held is None:
        model = gbm.train(options, data, num_boost_round=choice)
        return lambda rows: model.predict(encoder.narrow(rows))
    judge = gbm.Dataset(encoder.narrow(held), held.label, reference=data)
    stop = [gbm.early_stopping(50, verbose=False)]
    return gbm.train(options, data, num_boost_round=MOST_TREES, valid_sets=[judge], callbacks=stop).best_iteration


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--columns", type=json.loads, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    warnings.filterwarnings("ignore")  # columns without a value; standard output holds the JSON alone
    from sklearn.metrics import log_loss, roc_auc_score

    train, test = Rows(args.train, args.columns), Rows(args.test, args.columns)
    cut = len(train.label) * 9 // 10
    known, held = train.part(range(cut)), train.part(range(cut, len(train.label)))
    found = {}
    for name, make in (("logistic regression", logistic), ("LightGBM", lambda *parts: lightgbm(*parts, args.seed))):
        choice = make(known, held, None)
        probability = make(train, None, choice)(test)
        found[name] = {
            "auc": roc_auc_score(test.label, probability), "log_loss": log_loss(test.label, probability),
            "choice": choice,
        }  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
