"""The row about what PyTorch Geometric's own modules learn by any2vec's loader, beside its own loader."""

from __future__ import annotations

from itertools import product

from benchmarks.bench import Bench
from benchmarks.graphs.learned.accuracy import folder_of
from benchmarks.graphs.learned.runs import OURS, Graph, beside, kept_runs, of_script, points, seeds_of
from benchmarks.table import Measure, Reading, Row

SEEDS, EPOCHS = tuple(range(1, 11)), 30
MODELS = {"graphsage": "GraphSAGE", "gat": "GAT"}
"""name in scripts -> PyG's class"""
ENVIRONMENT = {"accelerated": OURS, "pyg": "pyg"}
"""loader -> where it runs"""


def beside_pyg(bench: Bench) -> list[Reading]:
    """Points of test accuracy that ours has more, seed by seed."""
    graph, epochs = Graph("photo", folder_of(bench, "photo")), 1 if bench.quick else EPOCHS
    found = kept_runs(
        bench,
        {
            (model, loader): [
                of_script(
                    bench, ENVIRONMENT[loader], "pyg_module.py", graph, epochs, seed, before=("accuracy", loader, model)
                )
                for seed in seeds_of(bench, SEEDS)
            ]
            for model, loader in product(MODELS, ENVIRONMENT)
        },
    )
    accuracies = {key: points(runs) for key, runs in found.items()}
    bench.runs |= {f"{model} {loader}": accuracies[model, loader] for model, loader in accuracies}
    return [beside(*(accuracies[model, loader] for loader in ENVIRONMENT)) for model in MODELS]


ROWS = (
    Row(
        name="own-module-accuracy",
        measures=tuple(
            Measure(
                name=f"PyG's own {name} on Photo, 2 layers, fan-outs 10,5, batches of 32, {EPOCHS} epochs, "
                f"{len(SEEDS)} seeds: test accuracy with any2vec's loader and any2vec.nn.accelerate, less that by "
                "PyG's loader, points",
                relation=">=", target=-0.3, is_accuracy=True,
            )
            for name in MODELS.values()
        ),
        run=beside_pyg, minutes=10, keeps_runs=True,
    ),
)  # fmt: skip
