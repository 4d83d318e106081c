"""The row about real clicks: Criteo and Avazu samples, stars of MovieLens, beside a linear model and boosted trees."""

from __future__ import annotations

import gzip
import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row

SEEDS = (1, 2, 3, 4, 5)
MODELS = {"logistic": "LogisticRegression", "fm": "FactorizationMachine", "deepfm": "DeepFM", "dlrm": "DLRM"}
PEERS = ("logistic regression", "LightGBM")
TEST_SHARE = 0.2
QUICK_LINES = 3000
_NUMBERS, _CATEGORIES = [f"I{n}" for n in range(1, 14)], [f"C{n}" for n in range(1, 27)]
_STARS = {"label": "stars", "dense": ["age"], "categorical": ["user", "movie", "gender", "occupation", "year"]}


@dataclass(frozen=True)
class Set:
    """A set of clicks: its lines, and what the columns are, for any2vec and for its peers."""

    name: str
    header: str
    """"" where the file has none"""
    lines: Sequence[str]
    schema: str | Path
    columns: dict[str, Any]
    epochs: tuple[int, ...]
    """among which the held-out part of the training data chooses"""


def criteo(bench: Bench) -> Set:
    lines = _unpacked(bench.data("ctr-criteo10k/criteo_train_first10k.txt.gz"))
    columns = {
        "delimiter": "\t", "names": ["label", *_NUMBERS, *_CATEGORIES], "label": "label", "dense": _NUMBERS,
        "categorical": _CATEGORIES, "multi_valued": [],
    }  # fmt: skip
    return Set("Criteo", "", lines, "criteo", columns, (1,))


def avazu(bench: Bench) -> Set:
    header, *lines = _unpacked(bench.data("ctr-avazu10k/avazu_train.csv.gz"))
    lines += _unpacked(bench.data("ctr-avazu10k/avazu_test.csv.gz"))
    names = header.split(",")
    columns = {
        "delimiter": ",", "names": names, "label": "click", "dense": [], "multi_valued": [],
        "categorical": [name for name in names if name not in ("id", "click", "hour")],  # all of one hour
    }  # fmt: skip
    return Set("Avazu", "", lines, "avazu", columns, (1,))


def movies(bench: Bench) -> Set:
    """Four stars and five are a click."""
    users = _records(bench.data("rec-ml100k/ml-100k.user.gz"))
    films = _records(bench.data("rec-ml100k/ml-100k.item.gz"))
    lines = []
    for line in _unpacked(bench.data("rec-ml100k/u.data.gz")):
        user, film, stars, _ = line.split("\t")
        age, gender, occupation, _ = users[user]
        _, year, genres = films[film]
        lines.append("\t".join((stars, age, user, film, gender, occupation, year, genres.replace(" ", "|"))))
    header = "\t".join((_STARS["label"], *_STARS["dense"], *_STARS["categorical"], "genres"))

    def write(path: Path) -> None:
        keys = _STARS | {
            "multi_valued": ["genres"],
            "label_from": 4,
            "dense_transform": "standard",
            "ids": "vocabulary",
        }
        keys |= {"delimiter": "tab", "pooling": "mean"}
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))

    columns = _STARS | {"delimiter": "\t", "names": None, "multi_valued": ["genres"], "label_from": 4}
    schema = bench.made("ml-100k.clicks.toml", write)
    return Set("ML-100k", header, lines, schema, columns, (1, 2, 3, 5, 8))


def real_data(bench: Bench) -> list[Reading]:
    """For each set the AUC, then the log-loss, of all models; means and standard deviations over splits."""
    readings = []
    for made in (criteo, avazu, movies):
        one = made(bench)
        found = [_one_split(bench, one, seed) for seed in (SEEDS[:1] if bench.quick else SEEDS)]
        bench.runs[one.name] = found
        for score, digits in (("auc", 4), ("log_loss", 4)):
            values = {name: [split[name][score] for split in found] for name in (*MODELS, *PEERS)}
            best = (max if score == "auc" else min)(MODELS, key=lambda name: statistics.fmean(values[name]))
            reported = ", ".join(f"{name} {_mean(of, digits)}" for name, of in values.items())
            readings.append(Reading(value=statistics.fmean(values[best]), text=reported))
    return readings


def _one_split(bench: Bench, one: Set, seed: int) -> dict[str, Any]:
    lines = list(one.lines)
    random.Random(seed).shuffle(lines)
    if bench.quick:
        del lines[QUICK_LINES:]
    cut = round(len(lines) * (1 - TEST_SHARE))
    paths = {}
    for side, part in (("train", lines[:cut]), ("test", lines[cut:])):
        paths[side] = bench.scratch(f"real-{side}.tsv")
        paths[side].write_text("".join(f"{line}\n" for line in ([one.header] if one.header else []) + part))
    files = ("--train", paths["train"], "--test", paths["test"], "--seed", seed)
    header = ("--header",) if one.header else ()
    ours = bench.ours("any2vec_real.py", *files, "--schema", one.schema, *header, "--epochs", *one.epochs).result
    theirs = bench.peer("lightgbm", "lightgbm_real.py", *files, "--columns", json.dumps(one.columns)).result
    for path in paths.values():
        path.unlink()
    return {name: ours[kind] for name, kind in MODELS.items()} | theirs


def _mean(values: Sequence[float], digits: int) -> str:
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}"


def _unpacked(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def _records(path: Path) -> dict[str, list[str]]:
    """Columns behind the first, by the first."""
    return {line.split("\t")[0]: line.split("\t")[1:] for line in _unpacked(path)[1:]}


def _measures(name: str) -> tuple[Measure, ...]:
    what = f"{name}, random 80/20"
    return (
        Measure(name=f"{what}: AUC, mean ± standard deviation of 5 splits", relation="", wording="reported"),
        Measure(name=f"{what}: log-loss", relation="", wording="reported"),
    )


ROWS = (
    Row(
        name="real-data",
        measures=tuple(measure for name in ("Criteo sample", "Avazu sample", "ML-100k stars 4 and 5")
                       for measure in _measures(name)),
        run=real_data,
        minutes=15,
    ),
)  # fmt: skip
