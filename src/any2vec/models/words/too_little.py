"""Whether a text, and what subsampling leaves of it, are enough to learn from."""

from __future__ import annotations

import numpy as np

from any2vec.data.vocab.vocabulary import keep_probabilities

LEAST_TRAINING = 3.5
"""Learning rates of a word's pairs, added up, below which vectors cannot be trusted. Ours: on planted topics of 10 and
of 400 words, lines of 8 to 800 words, rates of 0.025 to 0.15, neighbors were of the word's topic from 3.8 on, and as
good as random up to 2.7 (docs/log.md).
"""
_TO_TRY = (1e-3, 0.0)


def too_little(
    counts_V: np.ndarray, num_sentences: int, *, subsample: float, window: int, rate: float, epochs: int = 1
) -> str | None:
    """What the user is told where subsampling leaves so few pairs that the vectors are near where they start.

    It is to blame only if without it a word would have twice as many; else the data are small. O(V).

    counts_V: (V,), tokens of an epoch, not all 0; num_sentences: 1 or more, over which they lie alike.
    subsample: word2vec's t; window: tokens on each side; rate: the learning rate, on average; epochs: that see them.
    """

    def pairs(threshold: float) -> float:
        """A word's, as center, on average over words, in all epochs."""
        kept = float((counts_V * keep_probabilities(counts_V, threshold)).sum())
        # A sentence of k kept tokens on average, as Poisson has it, has k^2 pairs, at most a window of them for each.
        return epochs * kept * min(kept / num_sentences, window + 1) / len(counts_V)

    found, whole = pairs(subsample), pairs(0.0)
    if found * rate >= LEAST_TRAINING or whole < 2 * found:
        return None
    better = next((t for t in _TO_TRY if t != subsample and pairs(t) * rate >= LEAST_TRAINING), 0.0)
    also = "or" if pairs(better) * rate >= LEAST_TRAINING else "and"
    share = float((counts_V * keep_probabilities(counts_V, subsample)).sum() / counts_V.sum())
    return (
        f"Subsampling with {subsample:g} left {share:.1%} of the tokens, about {found:,.0f} pairs to train a vector "
        f"by: too few to trust the vectors; without it there are {whole:,.0f}. Train with --subsample {better:g} "
        f"(subsample={better:g} in Python), {also} on more data."
    )


def lone_words(num_lines: int) -> str:
    """What the user is told where no line has two words, so that no word has a neighbor."""
    lines = f"Each of the {num_lines:,} lines has" if num_lines > 1 else "The only line has"
    return (
        f"{lines} one word alone, so no pair was trained, and the vectors are as they began: words learn from their "
        "neighbors in a line. Put words that belong together on one line, or name the column that holds the text "
        "(--column, TextOptions(column=...))."
    )
