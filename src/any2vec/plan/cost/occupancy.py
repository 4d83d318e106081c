"""How many different rows a host reads in a round, expected from how often rows occur. Pure arithmetic.

An occurrence of a row falls into the work of a round with probability f, the round's share of the epoch, and is kept by
subsampling with probability k; so a row that occurs c times is read as input or center with probability
1 - (1 - f k)^c, and drawn as a negative with 1 - (1 - q)^n, q its share of the noise (counts ** 0.75) and n the draws
of the round. That is exact for words in random order. In a text a word's uses stand together, and a host with a chunk
reads fewer rows than that: there c uses are taken as c / clump places of `clump` uses each.

Rows with equal counts are one group, and the tail of a Zipf law goes in steps of 1 %, so that billions of rows take
milliseconds.

Legend: G groups of rows, H hosts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from any2vec.errors import InputError
from any2vec.plan.cost.volume import RoundSets, all_rows
from any2vec.plan.sharding.sharding import contiguous_bounds

NOISE_POWER = 0.75
"""negatives are drawn in proportion to counts ** 0.75 (Mikolov et al. 2013, section 2.2)"""
TEXT_CLUMP = 1.8
"""uses of a word that stand together in text: fitted on text-enwiki2015 with 4 hosts x 6 rounds. The bytes of a round
that follow are within 6 % of the truth at 32 hosts x 48 rounds, skip-gram and CBOW, shared and classic negatives"""
_HEAD = 1000
_STEP = 1.01


@dataclass(frozen=True)
class Frequencies:
    """How often rows occur in an epoch, as groups of rows with equal counts."""

    counts: np.ndarray
    """float64 (G,), occurrences of each row of the group, more than 0"""
    sizes: np.ndarray
    """int64 (G,), rows of the group, 1 or more"""
    is_ranked: bool = True
    """whether rows stand in this order; else (nodes of a graph) as if shuffled"""

    @property
    def rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def tokens(self) -> float:
        return float((self.counts * self.sizes).sum())

    def keep(self, subsample: float) -> np.ndarray:
        """float64 (G,): word2vec's probability that an occurrence is kept, min(1, sqrt(t / f) + t / f)."""
        if subsample == 0:
            return np.ones(len(self.counts))
        ratio = subsample * self.tokens / self.counts
        return np.minimum(1.0, np.sqrt(ratio) + ratio)

    def keep_rate(self, subsample: float) -> float:
        """Share of all occurrences that is kept, 0..1."""
        return float((self.counts * self.sizes * self.keep(subsample)).sum()) / self.tokens


def of_counts(counts: np.ndarray) -> Frequencies:
    """From the counts of all rows, (V,); rows that never occur count as if they did once in a thousand epochs."""
    is_ranked = bool((np.diff(counts) <= 0).all())
    different, sizes = np.unique(counts, return_counts=True)
    return Frequencies(np.maximum(different[::-1].astype(np.float64), 1e-3), sizes[::-1].astype(np.int64), is_ranked)


def zipf(rows: int, tokens: float, exponent: float = 1.0) -> Frequencies:
    """Counts in proportion to rank ** -exponent; every rank up to 1000 is a group, then ranks in steps of 1 %.

    Raises:
        InputError: a number is not legal.
    """
    if rows < 2 or tokens < 1 or not 0 <= exponent <= 4:
        raise InputError(
            "A Zipf law needs 2 rows or more, 1 token or more and an exponent from 0 to 4, "
            f"got {rows} rows, {tokens:g} tokens, exponent {exponent}."
        )
    head = min(rows, _HEAD)
    steps = max(0, math.ceil(math.log(rows / head) / math.log(_STEP)))
    edges = np.concatenate([np.arange(head), np.round(head * _STEP ** np.arange(steps)), [rows]]).astype(np.int64)
    edges = np.unique(np.minimum(edges, rows))
    sizes, middle = np.diff(edges), (edges[:-1] + 1 + edges[1:]) / 2
    weights = middle**-exponent
    return Frequencies(tokens * weights / (weights * sizes).sum(), sizes)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a kernel reads of the work that it is given."""

    subsample: float
    """word2vec's threshold; 0 keeps all"""
    draws: float
    """negatives drawn for each kept token, on average; 0 for hierarchical softmax"""
    is_hierarchical: bool = False
    """the output rows are the inner nodes of a Huffman tree, by ascending count"""
    clump: float = 1.0
    """uses of a row that stand together, on average, 1 or more; 1: all are strewn about"""


def blocks_per_kept(block: int, keep_rate: float, most: int) -> float:
    """Blocks of the block kernels for each kept token: of `block` positions that keep `keep_rate`, in parts of `most`.

    What is kept of a block is binomial; a block with nothing kept is none.
    """
    kept = np.arange(block + 1)
    if keep_rate >= 1:
        return -(-block // most) / block
    log_choose = np.array([math.lgamma(block + 1) - math.lgamma(k + 1) - math.lgamma(block - k + 1) for k in kept])
    share = np.exp(log_choose + kept * math.log(keep_rate) + (block - kept) * math.log1p(-keep_rate))
    return float((share * -(-kept // most)).sum() / (block * keep_rate))


def expected_sets(found: Frequencies, reading: Reading, hosts: int, rounds: int, scheme: str) -> RoundSets:
    """What a round is expected to need, with `rounds` rounds in an epoch; every host alike, blocks of rows apart."""
    if scheme == "rep-base":
        return all_rows(found.rows, hosts)
    one, all_ = 1 / (hosts * rounds), 1 / rounds
    tracked = _by_block(_accessed(found, reading, one, scheme == "pull-base"), hosts)
    merged = _by_block(_accessed(found, reading, all_, False), hosts)
    return RoundSets(tracked[:, None, :], merged)


def expected_rows(found: Frequencies, reading: Reading, share: float) -> tuple[float, float]:
    """(input rows, output rows) that a host reads of `share` (0..1) of an epoch, on average."""
    into, out = _accessed(found, reading, share, False)
    return float((into.chances * into.sizes).sum()), float((out.chances * out.sizes).sum())


class _Steps(NamedTuple):
    """Rows of one table in their order, and how likely each is read."""

    chances: np.ndarray
    sizes: np.ndarray
    is_ranked: bool


def _accessed(found: Frequencies, reading: Reading, share: float, has_union: bool) -> tuple[_Steps, _Steps]:
    """The input table and the output table; with has_union both have what either reads (PullModel-Base)."""
    keep = found.keep(reading.subsample)
    clump = np.minimum(reading.clump, np.maximum(1.0, found.counts))
    with np.errstate(divide="ignore"):
        missed = found.counts / clump * np.log1p(-share * -np.expm1(clump * np.log1p(-keep)))
    read = _Steps(-np.expm1(missed), found.sizes, found.is_ranked)
    if reading.is_hierarchical:
        written = _inner_nodes(found, keep, share)
        union = _union(read, written)
        return (union, union) if has_union else (read, written)
    draws = share * float((found.counts * found.sizes * keep).sum()) * reading.draws
    noise = found.counts**NOISE_POWER
    missed = missed + draws * np.log1p(-noise / (noise * found.sizes).sum())
    written = _Steps(-np.expm1(missed), found.sizes, found.is_ranked)
    return (written if has_union else read), written  # a center is an output row: inputs are among them


def _by_block(tables: tuple[_Steps, _Steps], hosts: int) -> np.ndarray:
    """int64 (2, H): rows that are read of each block; rows are striped, so blocks are alike."""
    found = []
    for chances, sizes, _ in tables:
        bounds = contiguous_bounds(int(sizes.sum()), hosts)
        rows = np.diff(bounds) * float((chances * sizes).sum() / sizes.sum())
        found.append(np.minimum(np.rint(rows).astype(np.int64), np.diff(bounds)))
    return np.stack(found)


def _inner_nodes(found: Frequencies, keep: np.ndarray, share: float) -> _Steps:
    """The inner nodes of the Huffman tree in ascending order of count, and one row that is never used.

    The two queues of van Leeuwen, by whole groups: of n equal nodes, n / 2 pairs are made at once.
    """
    leaves = [(float(c), float(c * k), int(n)) for c, k, n in zip(found.counts, keep, found.sizes, strict=True)]
    inner: list[tuple[float, float, int]] = []
    kept, sizes, at = [], [], 0
    single: tuple[float, float] | None = None
    while True:
        ready = at < len(inner)
        if not leaves and not ready:
            break
        if leaves and (not ready or leaves[-1][0] <= inner[at][0]):
            count, uses, size = leaves.pop()
        else:
            (count, uses, size), at = inner[at], at + 1
        made = []
        if single is not None:
            made.append((count + single[0], uses + single[1], 1))
            size, single = size - 1, None
        if size >= 2:
            made.append((2 * count, 2 * uses, size // 2))
        if size % 2:
            single = (count, uses)
        inner += made
        kept += [node[1] for node in made]
        sizes += [node[2] for node in made]
    chance = -np.expm1(-share * np.array([*kept, 0.0]))
    return _Steps(chance, np.array([*sizes, 1], np.int64), True)


def _union(one: _Steps, other: _Steps) -> _Steps:
    """How likely a row is read in either table."""
    ends = np.unique(np.concatenate([np.cumsum(one.sizes), np.cumsum(other.sizes)]))
    missed = np.ones(len(ends))
    for chances, sizes, is_ranked in (one, other):
        if is_ranked:
            missed *= 1 - chances[np.searchsorted(np.cumsum(sizes), ends)]
        else:
            missed *= 1 - float((chances * sizes).sum() / sizes.sum())
    return _Steps(1 - missed, np.diff(ends, prepend=0), True)
