"""PyTorch-BigGraph on triples: one JSON line with the triples of training per second. Runs in the environment 'pbg'."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import re
import tempfile
from pathlib import Path
from typing import Any, Union, get_args, get_origin


class Pace(logging.Handler):
    """Keeps what the run says of the speed of each bucket: all edges are in one, so of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"Processed \d+ edges in ([\d.]+) s", record.getMessage())
        if found:
            self.seconds.append(float(found[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", required=True, help="head, relation, tail, split by tabs")
    parser.add_argument("--dim", type=int, default=192, help="real numbers of a row")
    parser.add_argument("--batch", type=int, default=1000, help="triples of a step")
    parser.add_argument("--num-negatives", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2, help="the first is not timed")
    args = parser.parse_args()

    from torchbiggraph import schema

    # It compares Optional types by identity, which newer Pythons do not promise.
    def unpack_optional(kind: Any) -> Any:
        parts = [part for part in get_args(kind) if part is not type(None)]
        if len(parts) != 1 or len(get_args(kind)) != 2 or get_origin(kind) is not Union:
            raise TypeError("Not an optional type")
        return parts[0]

    schema.unpack_optional = unpack_optional
    from torchbiggraph.config import parse_config
    from torchbiggraph.converters.import_from_tsv import convert_input_data
    from torchbiggraph.train import train

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        edges = {"name": "all", "lhs": "all", "rhs": "all", "operator": "complex_diagonal"}
        files = {"entity_path": root / "entities", "checkpoint_path": root / "model"}
        config = parse_config(
            {name: str(path) for name, path in files.items()}
            | {"edge_paths": [str(root / "edges")], "entities": {"all": {"num_partitions": 1}}, "relations": [edges]}
            | {"dynamic_relations": True, "dimension": args.dim, "global_emb": False, "comparator": "dot"}
            | {"num_uniform_negs": args.num_negatives, "num_batch_negs": 0, "batch_size": args.batch}
            | {"loss_fn": "softmax", "lr": 0.1, "eval_fraction": 0, "workers": args.threads, "verbose": 1}
            | {"num_epochs": args.epochs}
        )
        with contextlib.redirect_stdout(io.StringIO()):  # it tells what it reads
            convert_input_data(
                config.entities, config.relations, config.entity_path, config.edge_paths, [Path(args.triples)],
                lhs_col=0, rhs_col=2, rel_col=1, dynamic_relations=True,
            )  # fmt: skip
        pace, logger = Pace(), logging.getLogger("torchbiggraph")
        logger.addHandler(pace)
        logger.setLevel(logging.INFO)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its config
            train(config)
    lines = Path(args.triples).read_bytes().count(b"\n")
    seconds = sum(pace.seconds[1:]) / (len(pace.seconds) - 1)
    print(json.dumps({"triples_per_s": lines / seconds, "epoch_seconds": seconds}))


if __name__ == "__main__":
    main()
