"""A trained model of clicks, ready to score: the rows, the dense layers, and the encoder of new data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import parse_json
from any2vec.data.clicks.encoder import ClickEncoder
from any2vec.data.clicks.rows import ClickBatch
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, InputError
from any2vec.formats.safetensors_file import read_safetensors, write_safetensors
from any2vec.kernels.rows.bags import pool_bags
from any2vec.models.clicks.config import CLICK_MODELS, ClickModel
from any2vec.models.registry import known_models, model_of

DENSE = "dense.safetensors"
"""file of the dense layers, and of the rows' weights, in the run folder"""


def _check_shapes(expected: dict[str, tuple[int, ...]], stored: dict[str, tuple[int, ...]]) -> None:
    """Raise FormatError unless both are the same."""
    for name in sorted(expected | stored):
        wanted, found = expected.get(name, "nothing"), stored.get(name, "nothing")
        if wanted != found:
            raise FormatError(
                f"The model and the schema ask for {name} of shape {wanted}, and {found} is stored; train again."
            )


class ClickScorer:
    """Predicts clicks.

    Args:
        encoder: encodes new rows as the training data were.
        vector_VD: float32 (V, dim); of logistic regression its weights, (V, 1).
        weight_V: float32 (V,), where the model has weights beside vectors; else None.
        dense: the dense parameters by name.

    Raises:
        FormatError: an array is missing, or has not the shape that the model and the schema ask for.
    """

    def __init__(
        self, model: ClickModel, encoder: ClickEncoder, vector_VD: np.ndarray, weight_V: np.ndarray | None,
        dense: dict[str, np.ndarray],
    ) -> None:  # fmt: skip
        import torch

        from any2vec.models.clicks.nets import make_net

        self.model = model
        self.encoder = encoder
        self.vectors = vector_VD
        self.weights = weight_V
        columns = encoder.schema.columns
        self._is_mean_F = np.array([column.is_multi_valued and column.pooling == "mean" for column in columns])
        self._net = make_net(model, len(encoder.schema.dense), len(columns))
        num_rows = int(encoder.offset_F[-1])
        # Files leave out what has no numbers: the linear part of a schema without numbers, say.
        parameters = {name: value for name, value in self._net.named_parameters() if value.numel()}
        self.dense = dense = {name: array for name, array in dense.items() if array.size}
        expected = {name: tuple(value.shape) for name, value in parameters.items()}
        expected |= {"vectors": (num_rows, model.dim)}
        if model.has_weights and model.vector_dim:
            expected |= {"weights": (num_rows,)}
        stored = {"vectors": vector_VD, **dense} | ({} if weight_V is None else {"weights": weight_V})
        _check_shapes(expected, {name: array.shape for name, array in stored.items()})
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(torch.from_numpy(dense[name]))

    def score(self, data: Any, batch_size: int = 4096) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(probabilities float64 (B,), labels float32 (B,), NaN where there is none) of one batch after the other.

        data: a table, or a path, folder, glob, or list of those, with the columns of the schema; the label may miss.
        batch_size: examples a batch.

        Raises:
            DataError: the data cannot be read, or do not fit the schema.
        """
        for batch in self.encoder.encode(data, batch_size=batch_size):
            yield self.predict(batch), batch.label_B

    def probabilities(self, data: Any) -> np.ndarray:
        """Of clicks, by example of all data that `score` takes, float64 (N,); raises as it does."""
        found = [probability_B for probability_B, _ in self.score(data)]
        return np.concatenate([np.empty(0), *found])

    def predict(self, batch: ClickBatch) -> np.ndarray:
        """Probabilities of clicks of a batch of B examples, float64 (B,). InputError: it is none; `score` has data."""
        from any2vec.models.clicks.worker import predict

        if not isinstance(batch, ClickBatch):
            raise InputError(
                f"predict takes a batch that the encoder has made, got {type(batch).__name__}; score(data) takes data."
            )

        return predict(self._net, batch, self._sums(batch), self._is_mean_F)

    def _sums(self, batch: ClickBatch) -> np.ndarray:
        """Sums of the rows' numbers over bags, float32 (P, W)."""
        num_bags = len(batch.start_P) - 1
        sum_PW = np.empty((num_bags, self.model.width), np.float32)
        dim = self.model.vector_dim
        if dim:
            vector_PD = np.empty((num_bags, dim), np.float32)
            pool_bags(self.vectors, batch.id_M, batch.start_P, vector_PD)
            sum_PW[:, :dim] = vector_PD
        if self.model.has_weights:
            weight_V1 = self.vectors if self.weights is None else self.weights[:, None]
            weight_P1 = np.empty((num_bags, 1), np.float32)
            pool_bags(weight_V1, batch.id_M, batch.start_P, weight_P1)
            sum_PW[:, dim:] = weight_P1
        return sum_PW

    # ---- on disk

    def write(self, path: Path) -> None:
        """Write the dense layers and the rows' weights to the file `path`; the vectors are written as `Embeddings`."""
        tensors = {f"dense.{name}": array for name, array in self.dense.items()}
        if self.weights is not None:
            tensors["weights"] = self.weights
        with path.open("wb") as file:
            write_safetensors(file, tensors, "float32", {"any2vec": json.dumps({"model": self.model.as_dict()})})

    @classmethod
    def load(cls, folder: Path | str) -> ClickScorer:
        """Open the folder of a finished run, its rows memory-mapped.

        Raises:
            FormatError: it is none of a model of clicks, or damaged.
        """
        folder = Path(folder)
        if not (folder / DENSE).exists():
            raise FormatError(f"{folder} holds no model of clicks; give the folder of a finished run of one.")
        embeddings = Embeddings.load(folder)
        try:
            tensors, metadata = read_safetensors(folder / DENSE, mmap=False, ranks=(1, 2))
            model: ClickModel = model_of(
                parse_json(metadata["any2vec"])["model"], known_models("clicks", CLICK_MODELS), "clicks"
            )
        except (FormatError, InputError) as error:
            raise FormatError(f"{folder / DENSE} is damaged: {error}") from error
        except KeyError as error:
            raise FormatError(f"{folder / DENSE} is damaged: its metadata lack {error}; train again.") from error
        except (OSError, ValueError, TypeError) as error:
            raise FormatError(f"{folder / DENSE} is damaged: {error}; train again.") from error
        dense = {name.removeprefix("dense."): array for name, array in tensors.items() if name.startswith("dense.")}
        vectors = np.ascontiguousarray(embeddings.vectors)
        return cls(model, ClickEncoder.open(folder), vectors, tensors.get("weights"), dense)
