"""Which keys of a model of clicks have learned: those that its examples have held."""

from __future__ import annotations

import numpy as np

from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.models.clicks.config import CLICK_MODELS
from any2vec.models.registry import known_models


def trained_keys(embeddings: Embeddings) -> Embeddings:
    """Those of a model of clicks without the keys that no example had (`column=<rare>` where nothing was rare, say).

    Their rows are as they were drawn: the scorer needs them, who asks for neighbors does not. Embeddings of other
    models are returned as they are. O(V).
    """
    model = embeddings.meta.get("model")
    name = model.get("model") if isinstance(model, dict) else None
    if name not in known_models("clicks", CLICK_MODELS).names() or embeddings.counts is None or embeddings.counts.all():
        return embeddings
    rows = np.flatnonzero(embeddings.counts)
    keys = [embeddings.keys[row] for row in rows.tolist()]
    output = None if embeddings.output is None else embeddings.output[rows]
    return Embeddings(keys, embeddings.vectors[rows], output, embeddings.counts[rows], embeddings.meta)


def keys_of_column(embeddings: Embeddings, column: str) -> Embeddings:
    """Those of one column of a model of clicks. O(V).

    Raises:
        InputError: no key is of that column.
    """
    names = [str(key) for key in embeddings.keys.names]
    rows = [row for row, name in enumerate(names) if name.startswith((f"{column}=", f"{column}#"))]
    if not rows:
        known = dict.fromkeys(name.partition("=")[0].partition("#")[0] for name in names if "=" in name or "#" in name)
        raise InputError(
            f"There are no keys of a column {column!r}; columns are {', '.join(known)}."
            if known
            else "--column is for models of clicks, whose keys are COLUMN=VALUE; leave it out."
        )
    keys = [embeddings.keys[row] for row in rows]
    counts = None if embeddings.counts is None else embeddings.counts[rows]
    return Embeddings(keys, embeddings.vectors[rows], None, counts, embeddings.meta)
