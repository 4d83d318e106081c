"""What a user would write: FastAPI over an index of usearch. KEYS INDEX PORT; POST /nearest {"key": ..., "k": ...}."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from usearch.index import Index


class Query(BaseModel):
    """A key, and how many neighbors it is asked for."""

    key: str
    k: int = 10


def main(keys_file: str, index_file: str, port: str) -> None:
    keys = [line.partition("\t")[0] for line in Path(keys_file).read_text().splitlines()]
    rows, index, app = {key: row for row, key in enumerate(keys)}, Index.restore(index_file), FastAPI()

    @app.post("/nearest")
    def nearest(query: Query) -> dict[str, list[tuple[str, float]]]:
        found = index.search(np.asarray(index.get(rows[query.key])), query.k + 1)
        near = [(keys[row], float(1 - distance)) for row, distance in zip(found.keys, found.distances, strict=True)]
        return {"neighbors": [one for one in near if one[0] != query.key]}

    uvicorn.run(app, port=int(port), log_level="warning")


main(*sys.argv[1:])
