"""Plain twin of models of clicks: an embedding table of PyTorch for each column, loops, float64, explicit updates.

Parameters of the dense layers go by the names that `any2vec.models.clicks.nets` gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from naive.rows import rows as naive_rows

Bags = list[list[list[int]]]
"""of each example, of each column: ids in the table of all columns"""


def pair_dots(vectors: torch.Tensor) -> torch.Tensor:
    """(B, G, D) -> (B, G (G - 1) / 2), pairs (1, 0), (2, 0), (2, 1), (3, 0)..."""
    dots = torch.bmm(vectors, vectors.transpose(1, 2))
    pairs = [dots[:, i, j] for i in range(vectors.shape[1]) for j in range(i)]
    return torch.stack(pairs, dim=1) if pairs else dots[:, :0, 0]


def layers(value: torch.Tensor, dense: dict[str, torch.Tensor], name: str, ends_in_relu: bool) -> torch.Tensor:
    """The network whose linear layers are `name`.0, `name`.2 ... with rectifiers between them."""
    numbers = sorted({int(key.split(".")[1]) for key in dense if key.startswith(f"{name}.")})
    for number in numbers:
        value = nn.functional.linear(value, dense[f"{name}.{number}.weight"], dense[f"{name}.{number}.bias"])
        if ends_in_relu or number != numbers[-1]:
            value = torch.relu(value)
    return value


def machine(numbers: torch.Tensor, pooled: torch.Tensor, linear: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Bias, linear part, and pair by pair the dot products of vectors; a row's last number is its weight."""
    logit = bias + pooled[:, :, -1].sum(dim=1) + numbers @ linear
    num_columns = pooled.shape[1]
    for i in range(num_columns):
        for j in range(i):
            logit = logit + (pooled[:, i, :-1] * pooled[:, j, :-1]).sum(dim=1)
    return logit


def logits(name: str, dense: dict[str, torch.Tensor], numbers: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
    """float64 (B,) from numbers (B, X) and pooled rows (B, F, W)."""
    if name == "dlrm":
        if not numbers.shape[1]:
            return layers(pair_dots(pooled), dense, "top", False)[:, 0]
        vector = layers(numbers, dense, "bottom", True)
        dots = pair_dots(torch.cat([vector[:, None], pooled], dim=1))
        return layers(torch.cat([vector, dots], dim=1), dense, "top", False)[:, 0]
    if name == "deepfm":
        deep = layers(torch.cat([pooled[:, :, :-1].flatten(1), numbers], dim=1), dense, "deep", False)[:, 0]
        return machine(numbers, pooled, dense["machine.linear"], dense["machine.bias"]) + deep
    return machine(numbers, pooled, dense["linear"], dense["bias"])


class PlainClicks:
    """A model of clicks with tables of its own.

    Args:
        table_VC: rows as they start, values first; offset_F: where each column's begin.
        dense: dense parameters by name.
        means: whether a column's bags are means.
    """

    def __init__(
        self, model: Any, table_VC: np.ndarray, offset_F: np.ndarray, dense: dict[str, np.ndarray], means: list[bool]
    ) -> None:
        self.model = model
        self.offsets = offset_F.tolist()
        self.dense = {key: torch.tensor(array, dtype=torch.float64, requires_grad=True) for key, array in dense.items()}
        self.state = {key: np.zeros((parameter.numel(), 2)) for key, parameter in self.dense.items()}
        self.rows = table_VC.astype(np.float64)
        self.tables = []
        for column, is_mean in enumerate(means):
            own = self.rows[self.offsets[column] : self.offsets[column + 1], : model.width]
            mode = "mean" if is_mean else "sum"
            self.tables.append(nn.EmbeddingBag.from_pretrained(torch.tensor(own), freeze=False, mode=mode))
        self.steps = 0

    def pooled(self, bags: Bags) -> torch.Tensor:
        columns = []
        for column, table in enumerate(self.tables):
            ids = [[one - self.offsets[column] for one in example[column]] for example in bags]
            starts = np.cumsum([0, *map(len, ids)])[:-1]
            flat = torch.tensor([one for bag in ids for one in bag], dtype=torch.int64)
            columns.append(table(flat, torch.tensor(starts)))
        return torch.stack(columns, dim=1)

    def logits(self, numbers: np.ndarray, bags: Bags) -> torch.Tensor:
        return logits(self.model.name, self.dense, torch.tensor(numbers, dtype=torch.float64), self.pooled(bags))

    def train(self, labels: np.ndarray, numbers: np.ndarray, bags: Bags) -> float:
        """One step by the mean loss of a batch; the sum of its losses."""
        for parameter in [*self.dense.values(), *(table.weight for table in self.tables)]:
            parameter.grad = None
        found = nn.functional.binary_cross_entropy_with_logits(
            self.logits(numbers, bags), torch.tensor(labels, dtype=torch.float64)
        )
        found.backward()
        self.steps += 1
        for key, parameter in self.dense.items():
            self._step_dense(key, parameter)
        for column, table in enumerate(self.tables):
            gradients = table.weight.grad.numpy()
            for row in sorted({one for example in bags for one in example[column]}):
                self._step_row(row, gradients[row - self.offsets[column]])
            own = self.rows[self.offsets[column] : self.offsets[column + 1], : self.model.width]
            table.weight.data[:] = torch.tensor(own)
        return float(found.detach()) * len(labels)

    def _step_row(self, row: int, gradient: np.ndarray) -> None:
        model, before = self.model, self.rows[row]
        if model.optimizer == "sgd":
            self.rows[row] = naive_rows.sgd(before, gradient, model.learning_rate)
        elif model.optimizer == "adagrad":
            self.rows[row] = naive_rows.adagrad(before, gradient, model.learning_rate, 1e-8)
        else:
            self.rows[row] = naive_rows.adam(before, gradient, model.learning_rate, 0.9, 0.999, 1e-8)

    def _step_dense(self, key: str, parameter: torch.Tensor) -> None:
        """Number by number: each has moments of its own."""
        assert parameter.grad is not None
        flat, rate, state = parameter.data.view(-1), self.model.dense_rate, self.state[key]
        for at, gradient in enumerate(parameter.grad.reshape(-1).numpy()):
            if self.model.optimizer == "sgd":
                flat[at] -= rate * gradient
                continue
            if self.model.optimizer == "adagrad":
                state[at, 1] += gradient**2
                flat[at] -= rate / (np.sqrt(state[at, 1]) + 1e-8) * gradient
                continue
            state[at] = 0.9 * state[at, 0] + 0.1 * gradient, 0.999 * state[at, 1] + 0.001 * gradient**2
            mean, square = state[at] / (1 - 0.9**self.steps, 1 - 0.999**self.steps)
            flat[at] -= rate * mean / (np.sqrt(square) + 1e-8)
