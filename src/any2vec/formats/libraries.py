"""Rows of embeddings as what other libraries work with: an Arrow table, a pandas DataFrame, a PyTorch tensor.

The libraries are imported when they are asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.data.vocab.user_keys import INTEGERS, UserKeys
from any2vec.errors import InputError
from any2vec.formats.table import Table


def to_arrow(table: Table) -> Any:
    """A pyarrow Table: key, vector (a list of fixed size over the same memory), output and count where there are."""
    from any2vec.data.io.arrow import pa
    from any2vec.formats.columns import arrow_schema

    def rows(matrix: np.ndarray) -> Any:
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(matrix).ravel()), matrix.shape[1])

    schema = arrow_schema(table, "float32")
    key = schema.field("key").type
    columns = [pa.array(list(table.keys), pa.string()).cast(key), rows(table.vectors)]
    columns += [] if table.output is None else [rows(table.output)]
    columns += [] if table.counts is None else [pa.array(table.counts)]
    return pa.Table.from_arrays(columns, schema=schema)


def to_pandas(table: Table) -> Any:
    """A DataFrame over the vectors: a row a key (the index), a column a dimension."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError("pandas is not installed; install it by pip install pandas.") from error
    index = pd.Index(list(UserKeys(table.keys, table.meta.get(INTEGERS) is True)), name="key")
    return pd.DataFrame(table.vectors, index=index, copy=False)


def to_torch(table: Table) -> Any:
    """A float32 tensor (N, D) of its own memory: `torch.nn.Embedding.from_pretrained(...)` takes it."""
    try:
        import torch
    except ImportError as error:
        raise InputError("PyTorch is not installed; install it by pip install torch.") from error
    return torch.from_numpy(np.array(table.vectors))
