"""Analogies in Google's format: a is to b as c is to which word?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, InputError
from any2vec.evaluate.reading import check_embeddings, read_lines, rows_in_memory
from any2vec.formats.norms import unit_rows

_MUL_EPSILON = np.float32(0.001)
_BLOCK_SCORES = 8_000_000
"""scores held at a time (float32)"""
_UNNAMED = "all"
"""section of questions under no `: section` line"""


@dataclass(frozen=True)
class AnalogyScore:
    """The score on one section, or on several together."""

    name: str
    correct: int
    covered: int
    """questions whose four words are all among the candidates"""
    questions: int

    @property
    def accuracy(self) -> float | None:
        """Correct over covered, 0..1; None when nothing is covered."""
        return self.correct / self.covered if self.covered else None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "accuracy": self.accuracy}


@dataclass(frozen=True)
class AnalogyResult:
    """Scores by section and together. A section whose name starts with "gram" is syntactic, any other semantic.

    Questions under no `: section` line are neither: they count in the total alone.
    """

    sections: tuple[AnalogyScore, ...]
    semantic: AnalogyScore
    syntactic: AnalogyScore
    total: AnalogyScore
    protocol: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        parts = {name: getattr(self, name).as_dict() for name in ("semantic", "syntactic", "total")}
        sections = [section.as_dict() for section in self.sections]
        return {
            "task": "analogy",
            "accuracy": self.total.accuracy,
            **parts,
            "sections": sections,
            "protocol": self.protocol,
        }


def read_questions(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Section names, the section of each question int64 (Q,), and its words str (Q, 4). DataError names a bad line."""
    names: list[str] = []
    sections: list[int] = []
    words: list[list[str]] = []
    for number, line in read_lines(path):
        if line.startswith(":"):
            names.append(line[1:].strip() or f"section {len(names) + 1}")
            continue
        if line.startswith("//"):  # the comment at the top of some copies
            continue
        fields = line.split()
        if len(fields) != 4:
            raise DataError(f"{path.name}, line {number:,}: expected `: section` or four words, got {line[:60]!r}.")
        if not names:
            names.append(_UNNAMED)
        sections.append(len(names) - 1)
        words.append(fields)
    if not words:
        raise DataError(f"{path.name}: there are no questions in it.")
    return names, np.array(sections), np.array(words, dtype=object)


def _questions_of(source: Any) -> tuple[list[str], np.ndarray, np.ndarray]:
    """As `read_questions`, of what is in memory."""
    rows = rows_in_memory(source, 4, "Analogy questions are a file, or rows of four words: a, b, c, d")
    words = np.array([[str(word) for word in row] for row in rows], dtype=object)
    return [_UNNAMED], np.zeros(len(rows), np.int64), words


def _answers(unit_VD: np.ndarray, questions_Q3: np.ndarray, method: str) -> np.ndarray:
    """The best row for a : b = c : ?, int64 (Q,); a, b, c left out; ties to the lower row. Memory O(_BLOCK_SCORES)."""
    answers = np.empty(len(questions_Q3), dtype=np.int64)
    block = max(1, _BLOCK_SCORES // len(unit_VD))
    for start in range(0, len(questions_Q3), block):
        part = questions_Q3[start : start + block]
        a, b, c = (unit_VD[part[:, i]] for i in range(3))
        if method == "add":
            scores_QV = (b - a + c) @ unit_VD.T
        else:
            scores_QV = (1 + b @ unit_VD.T) / 2
            scores_QV *= (1 + c @ unit_VD.T) / 2
            scores_QV /= (1 + a @ unit_VD.T) / 2 + _MUL_EPSILON
        np.put_along_axis(scores_QV, part, -np.inf, axis=1)
        answers[start : start + block] = scores_QV.argmax(axis=1)
    return answers


def evaluate_analogy(
    embeddings: Embeddings,
    path: Any,
    *,
    max_vocab: int | None = 30_000,
    method: Literal["add", "mul"] = "add",
    lowercase: bool = True,
) -> AnalogyResult:
    """Score embeddings on analogy questions.

    Args:
        embeddings: rows of words.
        path: Google's format: `: section` lines, then four words `a b c d` a line; a table, its first four columns; or
            a list of (a, b, c, d).
        max_vocab: candidates, and words that count as covered, are the so many most frequent rows (by counts, else by
            row order); None: all.
        method: "add" (3CosAdd, Mikolov et al. 2013) or "mul" (3CosMul, Levy and Goldberg 2014).
        lowercase: look words up lower-cased first and then as given; False: the other way round.

    Raises:
        InputError: max_vocab below 4 or another method.
        DataError: the file cannot be read, or a line or row is no question.
    """
    check_embeddings(embeddings)
    if method not in ("add", "mul"):
        raise InputError(f"method must be 'add' or 'mul', not {method!r}.")
    if max_vocab is not None and max_vocab < 4:
        raise InputError(f"max_vocab must be at least 4, or None for all; got {max_vocab}.")
    names, sections, words = read_questions(Path(path)) if isinstance(path, str | Path) else _questions_of(path)
    candidates = embeddings.frequent_rows(max_vocab)
    place = {embeddings.keys.names[int(row)]: index for index, row in enumerate(candidates)}

    def find(word: str) -> int:
        first, second = (word.lower(), word) if lowercase else (word, word.lower())
        return place.get(first, place.get(second, -1))

    found = {word: find(word) for word in set(words.ravel())}
    questions = np.array([found[word] for word in words.ravel()], dtype=np.int64).reshape(-1, 4)
    covered = np.all(questions >= 0, axis=1)
    correct: np.ndarray = np.zeros(len(questions), dtype=bool)
    if covered.any():
        unit = unit_rows(embeddings.vectors[candidates])
        correct[covered] = _answers(unit, questions[covered, :3], method) == questions[covered, 3]

    def score(name: str, chosen: Any) -> AnalogyScore:
        return AnalogyScore(name, int(correct[chosen].sum()), int(covered[chosen].sum()), int(chosen.sum()))

    is_syntactic = np.array([names[section].startswith("gram") for section in sections.tolist()])
    is_named = np.array([names[section] != _UNNAMED for section in sections.tolist()])
    return AnalogyResult(
        tuple(score(name, sections == index) for index, name in enumerate(names)),
        score("semantic", is_named & ~is_syntactic),
        score("syntactic", is_syntactic),
        score("total", np.ones(len(questions), dtype=bool)),
        f"{'3CosAdd' if method == 'add' else '3CosMul'} over the {len(candidates):,} most frequent rows, the three "
        f"question words excluded; words {'lower-cased, then as given' if lowercase else 'as given, then lower-cased'}",
    )
