"""Phrases of a text: found by how often words stand next to each other, put in their place, kept in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec import machine
from any2vec.checks import parse_json
from any2vec.data.io.direct import Spill
from any2vec.data.io.storage import atomic_file, check_file_free
from any2vec.data.options import PhraseOptions, TextOptions
from any2vec.data.text.corpus import Corpus
from any2vec.data.text.text import encode_text
from any2vec.errors import FormatError, InputError
from any2vec.types import Stage, as_reading

if TYPE_CHECKING:
    from any2vec.data.text.pairs.phrase_counts import Scores

FORMAT, VERSION = "any2vec-phrases", 1
_BLANK = re.compile(r"\s|^\Z")


class Phrases:
    """Words that belong together, such as `new york`, which become one: `new_york`.

        phrases = a2v.Phrases.fit("text.txt", min_count=5, threshold=10)
        phrases["we", "live", "in", "new", "york"]   # ['we', 'live', 'in', 'new_york']
        a2v.fit("skipgram", phrases.apply(sentences))

    Found as gensim's `Phrases` finds them, with exact counts (gensim drops rare ones beyond `max_vocab_size`); of a
    word that holds the delimiter already it takes the counts for those of a phrase of the same spelling, we do not.

    Args:
        passes: the phrases of each pass, a tuple of words (or phrases of the pass before) -> score.
        options: how they were found.
        text: how strings become words.

    Raises:
        InputError: passes is a string or a path: `load` opens a file, `fit` finds the phrases of a text.
    """

    def __init__(
        self, passes: Sequence[Scores], options: PhraseOptions | None = None, text: TextOptions | None = None
    ) -> None:
        if isinstance(passes, str | bytes | Path):
            raise InputError(
                f"Phrases takes the passes that were found, got {passes!r:.80}; open a file of phrases by "
                "Phrases.load(path), and find those of a text by Phrases.fit(path)."
            )
        self.passes, self.options, self.text = list(passes), options or PhraseOptions(), text or TextOptions()

    def __len__(self) -> int:
        return sum(map(len, self.passes))

    def __repr__(self) -> str:
        return f"Phrases({len(self):,} phrases, {len(self.passes)} passes)"

    @property
    def scores(self) -> dict[str, float]:
        """Every phrase, its words joined by the delimiter, and its score."""
        pairs = chain.from_iterable(found.items() for found in self.passes)
        return {self.options.delimiter.join(words): score for words, score in pairs}

    @classmethod
    def fit(
        cls, source: Any, *, text: TextOptions | None = None, threads: int = 0, cache_dir: Path | str | None = None,
        stage: Stage | None = None, **options: Any,
    ) -> Phrases:  # fmt: skip
        """Find the phrases of what `encode_text` reads.

        Args:
            source: files, a table, or sentences in memory, as `any2vec.fit` takes them for words.
            text: how it is read. threads: 0 = all usable cores. cache_dir: where the encoded text is kept.
            options: fields of `PhraseOptions`: min_count, threshold, scoring, passes, delimiter, connectors (a list
                of words, or "english").
            stage: called with (what is done, amount done, amount in all).

        Raises InputError, DataError and StorageError. The same for any number of threads. Memory O(different words and
        phrases + half a gigabyte of pairs): what is beyond lies in temporary files.
        """
        from any2vec.data.text.pairs.phrase_counts import JoinedCorpus, find_phrases

        chosen, reading = PhraseOptions(**options), text or TextOptions()
        corpus = encode_text(source, reading, cache_dir=cache_dir, progress=as_reading(stage))
        joined = JoinedCorpus(corpus, chosen.connector_words(), chosen.delimiter)
        passes: list[Scores] = []
        for number in range(chosen.passes):
            with Spill() as spill:
                passes.append(find_phrases(joined, chosen, spill, threads or machine.usable_cores(), stage))
            if not passes[-1]:
                break
            if number + 1 < chosen.passes:
                joined.join(passes[-1])
        return cls(passes, chosen, reading)

    def __getitem__(self, sentence: str | Iterable[str]) -> list[str]:
        """The words of one sentence (a string, or its words), phrases joined."""
        words = self.text.words(sentence)
        connectors = self.options.connector_words()
        for found in self.passes:
            words = list(_joined(words, found, connectors, self.options.delimiter))
        return words

    def apply(self, sentences: Iterable[str | Iterable[str]], column: str | None = None) -> Iterator[list[str]]:
        """The words of each sentence, phrases joined.

        Args:
            sentences: strings, or lists of words; or a table in memory, one sentence a row.
            column: of a table: the one of the text; None: that of `text`, or the only one that holds text.

        Raises:
            InputError: it is a string. DataError: it is a table whose column has to be named.
        """
        from any2vec.data.text.documents import Documents

        reading = replace(self.text, column=column or self.text.column)
        return (self[sentence] for sentence in Documents(sentences, reading))

    def write(
        self, source: Any, out: Path | str, *, overwrite: bool = False, threads: int = 0,
        cache_dir: Path | str | None = None, stage: Stage | None = None,
    ) -> Corpus:  # fmt: skip
        """Write what `encode_text` reads as text, a sentence a line, phrases joined; returns the corpus that was read.

        source, threads, cache_dir, stage: as of `fit`. overwrite: a file that stands at `out`.

        Raises InputError for words with white space, which text cannot hold, StorageError where `out` is taken.
        """
        from any2vec.data.text.pairs.phrase_counts import JoinedCorpus

        check_file_free(Path(out), overwrite)
        corpus = encode_text(source, self.text, cache_dir=cache_dir, progress=as_reading(stage))
        if blank := next((key for key in corpus.vocabulary.keys if _BLANK.search(key)), None):
            raise InputError(f"the word {blank!r} holds white space, which text cannot; use Phrases.apply instead.")
        joined = JoinedCorpus(corpus, self.options.connector_words(), self.options.delimiter)
        for found in self.passes:
            joined.join(found)
        names = np.array([*corpus.vocabulary.keys, *joined.names.values(), "\n"], dtype=object)
        blocks = joined.blocks(threads or machine.usable_cores(), lambda tokens: names[tokens])
        with atomic_file(out, overwrite) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            for words, done in blocks:
                file.write(" ".join([*words, ""]).replace(" \n", "\n").replace("\n ", "\n"))
                if stage is not None:
                    stage("writing", done, len(corpus.tokens))
        return corpus

    def save(self, path: Path | str, overwrite: bool = False) -> None:
        """Write them as JSON, atomically. StorageError: `path` is taken, not to overwrite, or cannot be written."""
        passes = [[[list(words), score] for words, score in found.items()] for found in self.passes]
        meta = {"format": FORMAT, "version": VERSION, "options": asdict(self.options), "text": asdict(self.text)}
        with atomic_file(path, overwrite) as temporary:
            temporary.write_text(json.dumps(meta | {"passes": passes}, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path | str) -> Phrases:
        """Open what `save` wrote. FormatError: it is something else, newer, or damaged."""
        try:
            meta = parse_json(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
            raise FormatError(f"{path} cannot be read as phrases: {reason}.") from error
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise FormatError(f"{path} holds no phrases; give a file that `any2vec phrases --save` wrote.")
        if meta.get("version") != VERSION:
            raise FormatError(
                f"{path} has version {meta.get('version')!r}; this any2vec reads up to {VERSION}: install a newer one."
            )
        try:
            passes = [{_checked(words): float(score) for words, score in found} for found in meta["passes"]]
            json.dumps(meta, ensure_ascii=False, allow_nan=False).encode()  # ValueError: what no text or JSON can hold
            return cls(passes, PhraseOptions(**meta["options"]), _text_options(meta["text"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{path} is damaged: {type(error).__name__}: {error}; write it again.") from error


def _text_options(found: Mapping[str, Any]) -> TextOptions:
    wrong = [
        name for name, value in found.items() if not isinstance(value, bool if name == "lowercase" else str | None)
    ]
    if wrong:
        raise ValueError(f"{wrong[0]} is {found[wrong[0]]!r:.80}")
    return TextOptions(**found)


def _checked(words: Any) -> tuple[str, ...]:
    if not isinstance(words, list) or len(words) < 2 or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{words!r:.80} is no phrase")
    return tuple(words)


def _joined(
    words: Sequence[str], found: Mapping[tuple[str, ...], float], connectors: frozenset[str], delimiter: str
) -> Iterator[str]:
    """From left to right: a word that ends a phrase begins no other."""
    waiting: list[str] = []  # a word and the connectors behind it
    for word in words:
        if word in connectors:
            if waiting:
                waiting.append(word)
            else:
                yield word
        elif (*waiting, word) in found:
            yield delimiter.join([*waiting, word])
            waiting = []
        else:
            yield from waiting
            waiting = [word]
    yield from waiting
