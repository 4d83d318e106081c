"""Tiny data sets of the golden runs: drawn from a fixed seed by integer arithmetic, written as plain files.

Nothing here knows any2vec: a rebuilding of the package cannot change what is trained on.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

WORDS, TOPICS = 150, 5
NODES = 60
ENTITIES, RELATIONS = 240, 3
CLASSES, FEATURES = 3, 12
MANY = 6_144
"""words or nodes whose vectors of 4,095 numbers are more than a small budget of memory"""
MANY_ENTITIES = 3_000


class Data:
    """The data sets, each written into a folder when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def text(self, part: int = 0, lines: int = 600) -> Path:
        """Lines of nine words, most of them of one topic; some words are rare."""

        def content() -> str:
            rng = _rng("text", part)
            topics = rng.integers(0, TOPICS, (lines, 1))
            ranks = (rng.integers(0, WORDS // TOPICS, (lines, 9)) * rng.integers(1, 9, (lines, 9))) // 8
            words = ranks * TOPICS + topics
            strays = rng.integers(0, 10, (lines, 9)) == 0
            words = np.where(strays, rng.integers(0, WORDS, (lines, 9)), words)
            return "".join(" ".join(map(_word, line)) + "\n" for line in words.tolist())

        return self._file(f"text-{part}-{lines}.txt", content)

    def many_words(self) -> Path:
        """Every word of a vocabulary too large for the budget, twice, in drawn orders."""

        def content() -> str:
            rng = _rng("many words", 0)
            words = np.concatenate([rng.permutation(MANY), rng.permutation(MANY)]).reshape(-1, 12)
            return "".join(" ".join(f"w{word}" for word in line) + "\n" for line in words.tolist())

        return self._file("many-words.txt", content)

    def graph(self) -> Path:
        """Weighted edges: three rings with chords, and a few edges between them."""

        def content() -> str:
            rng, size = _rng("graph", 0), NODES // 3
            edges = [(ring * size + node, ring * size + (node + 1) % size) for ring in range(3) for node in range(size)]
            edges += [
                (ring * size + u, ring * size + v)
                for ring in range(3)
                for u, v in rng.integers(0, size, (30, 2)).tolist()
                if u != v
            ]
            edges += [(u, v) for u, v in rng.integers(0, NODES, (8, 2)).tolist() if u != v]
            weights = rng.integers(1, 6, len(edges)).tolist()
            return "".join(f"n{u}\tn{v}\t{weight}\n" for (u, v), weight in zip(edges, weights, strict=True))

        return self._file("graph.tsv", content)

    def many_nodes(self) -> Path:
        """A ring of more nodes than the budget has room for."""
        return self._file("many-nodes.tsv", lambda: "".join(f"{u}\t{(u + 1) % MANY}\n" for u in range(MANY)))

    def triples(self) -> Path:
        """Triples in which a relation leads from a group of ten entities to another."""

        def content() -> str:
            rng, groups = _rng("triples", 0), ENTITIES // 10
            head, relation = rng.integers(0, ENTITIES, 1500), rng.integers(0, RELATIONS, 1500)
            tail = (head // 10 + relation + 1) % groups * 10 + rng.integers(0, 10, 1500)
            rows = zip(head.tolist(), relation.tolist(), tail.tolist(), strict=True)
            return "".join(f"e{h}\tr{r}\te{t}\n" for h, r, t in rows)

        return self._file("triples.tsv", content)

    def many_triples(self) -> Path:
        """Triples over more entities than the budget has room for."""

        def content() -> str:
            rng = _rng("many triples", 0)
            tail = rng.permutation(MANY_ENTITIES).tolist()
            return "".join(f"e{head}\tr{head % RELATIONS}\te{tail[head]}\n" for head in range(MANY_ENTITIES))

        return self._file("many-triples.tsv", content)

    def interactions(self) -> Path:
        """Users of five groups, each with its own items; some weights are above 1."""

        def content() -> str:
            rng = _rng("interactions", 0)
            rows = [(user, 20 * (user % 5) + item) for user in range(200) for item in rng.choice(20, 8, replace=False)]
            weights = rng.integers(1, 4, len(rows)).tolist()
            lines = (f"u{user}\ti{item}\t{weight}\n" for (user, item), weight in zip(rows, weights, strict=True))
            return "user\titem\tweight\n" + "".join(lines)

        return self._file("interactions.tsv", content)

    def clicks(self, rows: int = 1600) -> Path:
        """Clicks with two numbers, three categories and one column of bags; the label leans on two of them."""

        def content() -> str:
            rng = _rng("clicks", 0)
            numbers = rng.integers(0, 50, (rows, 2))
            users, sites, hours = (rng.integers(0, most, rows) for most in (200, 40, 7))
            sizes = rng.integers(0, 4, rows)
            bags = rng.integers(0, 30, (rows, 4))
            score = users % 5 + sites % 3 + numbers[:, 0] // 20 + rng.integers(0, 5, rows)
            lines = ["label\tprice\tage\tuser\tsite\thour\ttags\n"]
            for row in range(rows):
                tags = "|".join(f"t{tag}" for tag in bags[row, : sizes[row]].tolist())
                price, age = numbers[row].tolist()
                lines.append(
                    f"{int(score[row] > 6)}\t{price}\t{age}\tu{users[row]}\ts{sites[row]}\th{hours[row]}\t{tags}\n"
                )
            return "".join(lines)

        return self._file(f"clicks-{rows}.tsv", content)

    def nodes(self) -> dict[str, Path]:
        """A graph of three classes with features: paths of edges, features, labels and split."""
        rng, count = _rng("nodes", 0), 90
        label = np.arange(count) % CLASSES
        pairs = rng.integers(0, count, (900, 2))
        near = label[pairs[:, 0]] == label[pairs[:, 1]]
        kept = pairs[(pairs[:, 0] != pairs[:, 1]) & (near | (rng.integers(0, 12, 900) == 0))]
        features = (rng.integers(0, 8, (count, FEATURES)) + 6 * (np.arange(FEATURES) == label[:, None])) / 8
        parts = [("train", "val", "test", "test")[node // CLASSES % 4] for node in range(count)]
        path = self.folder / "features.npy"
        if not path.exists():
            np.save(path, features.astype(np.float32))
        return {
            "edges": self._file("node-edges.tsv", lambda: "".join(f"{u}\t{v}\n" for u, v in kept.tolist())),
            "features": path,
            "labels": self._file(
                "labels.tsv", lambda: "".join(f"{node}\tc{name}\n" for node, name in enumerate(label))
            ),
            "split": self._file("split.tsv", lambda: "".join(f"{node}\t{part}\n" for node, part in enumerate(parts))),
        }

    def edge_rows(self) -> Path:
        """Three features of each edge of `nodes`, the first one telling whether it leads to its own class."""
        path = self.folder / "edge-features.npy"
        if not path.exists():
            ends = np.loadtxt(self.nodes()["edges"], np.int64)
            rows = _rng("edge rows", 0).integers(-8, 9, (len(ends), 3)) / 8
            rows[:, 0] = ends[:, 0] % CLASSES == ends[:, 1] % CLASSES
            np.save(path, rows.astype(np.float32))
        return path

    def typed_edges(self) -> dict[str, Path]:
        """Triples whose relations tell the three classes of some nodes: paths of edges, labels and split."""
        label = np.arange(90) % CLASSES

        def content() -> str:
            rng = _rng("typed edges", 0)
            ends = rng.integers(0, 90, (360, 2)).tolist()
            lines = [f"{node}\tr{label[node]}\t{90 + node % 6}\n" for node in range(90)]
            lines += [f"{u}\tknows\t{v}\n" for u, v in ends if u != v]
            return "".join(lines)

        known = self.nodes()
        return {"edges": self._file("typed-edges.tsv", content), "labels": known["labels"], "split": known["split"]}

    def _file(self, name: str, content) -> Path:  # type: ignore[no-untyped-def]
        path = self.folder / name
        if not path.exists():
            path.write_text(content(), encoding="utf-8")
        return path


def _rng(name: str, part: int) -> np.random.Generator:
    return np.random.default_rng([*name.encode(), part])


@cache
def _word(number: int) -> str:
    """A word whose characters tell its topic, for models that read characters."""
    letters = "".join("bdfgklmnprstvz"[int(digit)] + "aeiou"[number % 5] for digit in f"{number:03d}")
    return letters + "xyzwq"[number % TOPICS]
