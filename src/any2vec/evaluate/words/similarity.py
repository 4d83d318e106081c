"""Word similarity: does the cosine of two words rank the pairs as people do?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.embeddings import Embeddings
from any2vec.encoders.encoder import make_possible
from any2vec.errors import DataError, InputError
from any2vec.evaluate.reading import check_embeddings, fields_of, mark_of, read_lines, rows_in_memory, rows_of_words
from any2vec.formats.norms import unit_rows

PROTOCOL = "Spearman correlation (ranks of ties averaged) of cosine with the human score, over the covered pairs"


@dataclass(frozen=True)
class SimilaritySet:
    """The score on one file of pairs."""

    name: str
    """the file's name without its suffix"""
    spearman: float | None
    """-1..1; None with fewer than two covered pairs, or when either side is constant"""
    pairs: int
    covered: int
    """pairs whose words both have a vector"""
    made: int = 0
    """of these, pairs with a word that has no row: its vector is made of its characters"""


@dataclass(frozen=True)
class SimilarityResult:
    """The scores on all files."""

    sets: tuple[SimilaritySet, ...]
    protocol: str = PROTOCOL

    @property
    def mean(self) -> float | None:
        """The mean of the sets' correlations, or None when one of them has none, or there is no set."""
        values = [one.spearman for one in self.sets if one.spearman is not None]
        return sum(values) / len(values) if values and len(values) == len(self.sets) else None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"task": "similarity", "mean": self.mean, **asdict(self)}


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's rank correlation of two float vectors, ties at their mean rank; None where it is not defined."""
    from scipy.stats import rankdata

    if len(first) < 2:
        return None
    a, b = rankdata(first) - (len(first) + 1) / 2, rankdata(second) - (len(first) + 1) / 2
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm > 0 else None


def read_pairs(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    """The words and scores of `word1 word2 score` lines (tab, comma or blanks, with the first two quotes as of CSV; `#`
    comments and a header in front are skipped, further columns ignored). DataError names the line that is none."""
    may_be_header = True
    first: list[str] = []
    second: list[str] = []
    scores: list[float] = []
    for number, line in read_lines(path):
        fields = fields_of(line, mark_of(line))
        try:
            score = float(fields[2])
        except (IndexError, ValueError):
            is_comment = line.startswith("#")
            if not scores and (may_be_header or is_comment):
                may_be_header &= is_comment
                continue
            raise DataError(
                f"{path.name}, line {number:,}: expected `word1<TAB>word2<TAB>score`, got {line[:60]!r}."
            ) from None
        if not np.isfinite(score):
            raise DataError(f"{path.name}, line {number:,}: the score must be finite, got {fields[2]!r}.")
        first.append(fields[0])
        second.append(fields[1])
        scores.append(score)
    if not scores:
        raise DataError(f"{path.name}: there are no pairs in it.")
    return first, second, np.array(scores)


def _files(path: str | Path | Sequence[str | Path]) -> list[Path]:
    if not isinstance(path, str | Path):
        files = [file for one in path for file in _files(one)]
        if not files:
            raise InputError("There is no file of word pairs; give one at least.")
        return files
    path = Path(path)
    if not path.is_dir():
        return [path]
    files = [file for file in sorted(path.glob("*.txt")) if not next(read_lines(file), (0, ":"))[1].startswith(":")]
    if not files:
        raise DataError(f"{path.name}: there are no .txt files of word pairs in this folder.")
    return files


def evaluate_similarity(
    embeddings: Embeddings, path: Any, *, lowercase: bool = True, unseen: bool = True
) -> SimilarityResult:
    """Score embeddings on judged word pairs, of those whose words both have a vector.

    Args:
        embeddings: rows of words.
        path: a file `word1<TAB>word2<TAB>score`, several, or a folder (its .txt files, analogy files left out); a
            table, its first three columns; or a list of (word, word, score).
        lowercase: look words up lower-cased first and then as given; False: the other way round.
        unseen: count words without a row, too, where the embeddings can make their vectors.

    Raises:
        DataError: a file cannot be read, or a line or row is no pair; there is none.
    """
    check_embeddings(embeddings)
    return similarity_of(embeddings, pairs_of(path), lowercase, unseen)


Pairs = tuple[str, list[str], list[str], np.ndarray]
"""name of a set, first words, second words, scores float64 (N,)"""


def pairs_of(source: Any) -> list[Pairs]:
    """Judged pairs: of files, as `evaluate_similarity` takes them; of a table, its first three columns; of a list of
    (word, word, score).

    Raises:
        DataError: they cannot be read, or are no pairs; there is none.
    """
    source = [source] if isinstance(source, str | Path) else list(source) if isinstance(source, Iterator) else source
    if isinstance(source, list | tuple) and source and all(isinstance(one, str | Path) for one in source):
        return [(file.stem, *read_pairs(file)) for file in _files(source)]
    wanted = "Judged pairs are two words and a finite score each"
    rows = rows_in_memory(source, 3, wanted)
    try:
        scores = np.array([float(row[2]) for row in rows])
    except (TypeError, ValueError) as error:
        raise DataError(f"{wanted} ({error}).") from None
    if not np.isfinite(scores).all():
        raise DataError(f"{wanted}; row {int(np.argmin(np.isfinite(scores))) + 1:,} has no such score.")
    return [("pairs", [str(row[0]) for row in rows], [str(row[1]) for row in rows], scores)]


def check_covered(given: Sequence[Pairs], known: Set[str]) -> None:
    """Raise DataError for a set that has not two pairs of known words with different scores: nothing could rank."""
    for name, first, second, scores in given:
        pairs = zip(first, second, strict=True)
        is_covered_N = np.array([all(word in known or word.lower() in known for word in pair) for pair in pairs])
        if len(np.unique(scores[is_covered_N])) < 2:
            raise DataError(
                f"{is_covered_N.sum():,} of the {len(scores):,} pairs of {name} have words of the vocabulary; to rank "
                "them it takes two of different scores: give other pairs, or lower --min-count."
            )


def similarity_of(
    embeddings: Embeddings, given: Sequence[Pairs], lowercase: bool = True, unseen: bool = True
) -> SimilarityResult:
    """As `evaluate_similarity`, of pairs that have been read."""
    sets = []
    for name, first, second, scores in given:
        sides = [_vectors(embeddings, words, lowercase, unseen) for words in (first, second)]
        seen, covered = (np.logical_and(*flags) for flags in zip(*(side[1:] for side in sides), strict=True))
        a, b = (unit_rows(side[0][covered]).astype(np.float64) for side in sides)
        value = spearman(np.einsum("ij,ij->i", a, b), scores[covered])
        num_covered = int(covered.sum())
        sets.append(SimilaritySet(name, value, len(scores), num_covered, num_covered - int(seen.sum())))
    return SimilarityResult(tuple(sets))


def _vectors(
    embeddings: Embeddings, words: list[str], lowercase: bool, unseen: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(vectors of words, float32 (N, D), 0 where there is none; whether they have a row, (N,); whether a vector)."""
    rows = rows_of_words(embeddings, words, lowercase)
    has_row = rows >= 0
    found, has_vector = np.zeros((len(rows), embeddings.dim), np.float32), has_row.copy()
    found[has_row] = embeddings.vectors[rows[has_row]]
    if unseen and embeddings.encoder is not None:
        asked = {n: words[n].lower() if lowercase else words[n] for n in np.flatnonzero(~has_row).tolist()}
        row_of, made = make_possible(embeddings.encoder, dict.fromkeys(asked.values()))
        places = [n for n, word in asked.items() if word in row_of]
        found[places], has_vector[places] = made[[row_of[asked[n]] for n in places]], True
    return found, has_row, has_vector
