"""From what the user names to what a learner needs: a token stream, keys, counts, keep probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.data.graph.reader import open_graph
from any2vec.data.io.files import fingerprint
from any2vec.data.text.corpus import Corpus, is_corpus
from any2vec.data.text.text import TextOptions, encode_text
from any2vec.data.vocab.vocabulary import Keys, Vocabulary, keep_probabilities
from any2vec.errors import DataError, FormatError, InputError
from any2vec.models.words.config import SequenceModel, WalkModel
from any2vec.models.words.learner import block_positions
from any2vec.models.words.source import StoredTokens, TokenSource, WalkedTokens
from any2vec.types import Stage, as_reading

if TYPE_CHECKING:
    from any2vec.cluster.transport import Transport
    from any2vec.data.graph.graph import Graph
    from any2vec.data.options import GraphOptions
    from any2vec.sampling.walks import WalkOptions

LEAST_TIME = 100_000_000
"""seconds from 1970 to 1973; of a graph whose weights are all that large, they are likely times"""


@dataclass(frozen=True)
class Prepared:
    """Data, ready to be trained on."""

    source: TokenSource
    keys: Sequence[str]
    counts: np.ndarray
    """int64 (V,)"""
    keep: np.ndarray
    """float64 (V,)"""
    block: int
    """positions of the stream that make one block"""
    metadata: dict[str, Any]
    """what the data is, for the report and for a resumed run to compare"""
    bounds: list[int] | None = None
    """host h trains positions [bounds[h], bounds[h + 1]); None: nobody has cut the data yet"""
    doubt: str | None = None
    """what is odd about the data, for the user"""


def prepare(
    model: SequenceModel,
    data: Any,
    *,
    threads: int,
    seed: int,
    text: TextOptions | None,
    graph: GraphOptions | None,
    cache_dir: Path | None,
    stage: Stage | None,
) -> Prepared:
    """Read `data` for `model`: a corpus, text, a graph, or stored walks.

    Raises:
        InputError: the model cannot be trained on such data.
        DataError: the data cannot be read, or too little is left of it.
    """
    corpus = stored_corpus(data)
    if corpus is not None:
        _check_reading_options(corpus, text or graph)
    elif model.is_graph:
        assert isinstance(model, WalkModel)
        found = open_graph(data, graph, cache_dir, stage)
        return _prepare_walks(model, found, graph_metadata(model, found, graph), threads, seed)
    if corpus is None:
        corpus = encode_text(data, text or TextOptions(), cache_dir=cache_dir, progress=as_reading(stage))
    return _prepare_corpus(model, corpus)


def _check_reading_options(corpus: Corpus, options: TextOptions | GraphOptions | None) -> None:
    if options is not None and options != type(options)():
        kind = "text" if isinstance(options, TextOptions) else "graphs"
        raise InputError(
            f"{corpus.path} is encoded already, so the options of reading {kind} do not apply; leave them out."
        )


def _check_walks(model: SequenceModel, corpus: Corpus) -> int:
    """Length of the stored walks.

    Raises:
        FormatError: a node was counted less than 0 times.
        InputError: an option asks for other walks than these, or they are of one node each.
    """
    if (corpus.vocabulary.counts < 0).any():
        raise FormatError(f"{corpus.path} is damaged: counts.npy has a count below 0; write the walks again.")
    stored = {"walk_length": 40} | corpus.meta.get("options", {})
    for item in fields(model):
        value = getattr(model, item.name)
        applies = item.name not in ("min_count", "max_vocab")
        if (item.name in stored or not applies) and value != item.default and value != stored.get(item.name):
            why = f"made with {stored[item.name]!r}; leave it out" if applies else "where every node gets a vector"
            raise InputError(f"{item.name} = {value!r} does not go with the walks stored in {corpus.path}, {why}.")
    if stored["walk_length"] < 2:
        raise InputError(
            f"{corpus.path} holds walks of one node, which make no pairs; walk with --walk-length 2 or more."
        )
    return int(stored["walk_length"])


def stored_corpus(data: Any) -> Corpus | None:
    """The corpus that `data` is or names, if so."""
    if isinstance(data, Corpus):
        return data
    if isinstance(data, list | tuple) and len(data) == 1:
        data = data[0]
    if isinstance(data, str | Path) and str(data) != "-" and is_corpus(data):
        return Corpus.open(data)
    return None


def _prepare_corpus(model: SequenceModel, corpus: Corpus) -> Prepared:
    if corpus.kind == "walks":
        vocabulary = corpus.vocabulary
        unit = _check_walks(model, corpus) + 1
    else:
        if model.is_graph:
            raise InputError(
                f"{model.name} trains on a graph or on stored walks, and {corpus.path} holds {corpus.kind}; "
                "train skipgram or cbow on it."
            )
        vocabulary = corpus.vocabulary.truncate(model.min_count, model.max_vocab)
        unit = 0
    found = Counted(
        origin={"corpus": corpus.path.name}, kind=corpus.kind, num_slots=len(corpus.tokens),
        num_tokens=corpus.num_tokens, num_sentences=corpus.num_sentences, num_types=len(corpus.vocabulary),
        bad_bytes=corpus.meta.get("bad_bytes", 0),
        digest=fingerprint(corpus.vocabulary.keys.arena, corpus.vocabulary.counts),
    )  # fmt: skip
    return prepare_tokens(model, vocabulary, found, lambda block: StoredTokens(corpus.tokens, block), unit)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What was counted of a token stream, all of it, wherever it lies."""

    origin: dict[str, Any]
    """what distinguishes it from other streams with the same words"""
    kind: str
    num_slots: int
    """tokens and ends of sentences"""
    num_tokens: int
    num_sentences: int
    num_types: int
    bad_bytes: int
    digest: str
    """of all keys and counts"""


def prepare_tokens(
    model: SequenceModel,
    vocabulary: Vocabulary,
    found: Counted,
    source: Callable[[int], TokenSource],
    unit: int = 0,
    bounds: list[int] | None = None,
) -> Prepared:
    """Of a token stream with this vocabulary, as far as it is kept. source: makes the stream of a unit.

    Raises:
        DataError: too little is left of it.
    """
    check_vocabulary(vocabulary, found.num_types, model)
    keep = vocabulary.subsample_keep(model.subsample)
    kept = float((keep * vocabulary.counts).sum())
    block = unit or block_positions(model, kept / found.num_slots)
    metadata = found.origin | {
        "kind": found.kind, "num_tokens": found.num_tokens, "num_sentences": found.num_sentences,
        "num_types": found.num_types, "vocabulary": len(vocabulary),
        "tokens_in_vocabulary": int(vocabulary.counts.sum()), "kept_per_epoch": round(kept),
        "bad_bytes": found.bad_bytes, "digest": found.digest,
    }  # fmt: skip
    return Prepared(source(block), vocabulary.keys, vocabulary.counts, keep, block, metadata, bounds)


def check_vocabulary(vocabulary: Vocabulary, num_types: int, model: SequenceModel) -> None:
    """DataError unless at least two of the `num_types` distinct items are left."""
    if len(vocabulary) < 2:
        raise DataError(
            f"Only {len(vocabulary)} of {num_types:,} distinct items occur {model.min_count} times or "
            "more, and at least 2 are needed; lower --min-count or give more data."
        )


def _prepare_walks(model: WalkModel, graph: Graph, metadata: dict[str, Any], threads: int, seed: int) -> Prepared:
    from any2vec.sampling.walks import Walker, count_visits

    walker = Walker(graph.csr, walk_options(model), seed)
    return _prepared_graph(model, graph, WalkedTokens(walker), metadata, count_visits(walker, 0, threads))


def prepare_distributed(
    model: SequenceModel, graph: Graph, metadata: dict[str, Any], transport: Transport, partition: str, seed: int
) -> Prepared:
    """Of a graph that is to lie on all hosts of `transport`, a part each; a collective call.

    graph: whole, as it lies on disk or in memory that logical hosts share; a host keeps its part of it, and all keys.
    metadata: `graph_metadata` of it.

    Raises:
        InputError: the graph cannot be cut like that.
    """
    from any2vec.cluster.launch.join import joined
    from any2vec.cluster.message import Part
    from any2vec.cluster.transport import LONG_WORK
    from any2vec.models.words.walk_corpus import WalkCorpusTokens
    from any2vec.plan.sharding.graph import metis_partition
    from any2vec.plan.sharding.nodes import NodeSharding
    from any2vec.sampling.distributed_walks import PHASE, DistributedWalker
    from any2vec.sampling.parts import cut_part
    from any2vec.sampling.walk_corpus import count_visits_together
    from any2vec.tasks.words.metis_process import metis_in_process

    assert isinstance(model, WalkModel)
    if partition == "metis":  # takes time and memory for the whole graph, so rank 0 alone calls it
        part_N = np.empty(0, np.int32)
        if transport.rank == 0:
            part_N = (metis_in_process if joined() else metis_partition)(graph.csr, transport.hosts)
        received = transport.share([Part("ids", part_N.astype(np.uint16))], PHASE, timeout=LONG_WORK)
        sharding = NodeSharding.of(received[0].array, transport.hosts)
    else:
        sharding = NodeSharding.make(graph.csr, transport.hosts, partition)
    part = cut_part(graph.csr, sharding, transport.rank, graph.is_directed)
    walker = DistributedWalker(part, transport, walk_options(model), seed)
    return _prepared_graph(model, graph, WalkCorpusTokens(walker), metadata, count_visits_together(walker))


def graph_metadata(model: SequenceModel, graph: Graph, options: GraphOptions | None) -> dict[str, Any]:
    """What is known of a graph before the first walk: enough to tell whether a former run was on the same.

    options: how it was read; that weights were left out on request is no news.
    """
    assert isinstance(model, WalkModel)
    report = graph.report
    beside = report.ignored_columns - (options is not None and options.weighted is False)
    return {
        "kind": "graph", "num_nodes": report.num_nodes, "num_edges": report.num_edges,
        "duplicates": report.duplicates, "self_loops": report.self_loops, "isolated": report.isolated,
        "header": report.header, **({"columns_not_read": beside} if beside > 0 else {}),
        "is_directed": graph.is_directed, "is_weighted": report.is_weighted,
        "num_walks": len(graph) * model.walks_per_node, "digest": _digest(graph),
        **({"notes": report.notes} if report.notes else {}),
    }  # fmt: skip


def _prepared_graph(
    model: WalkModel, graph: Graph, source: TokenSource, metadata: dict[str, Any], counts: np.ndarray
) -> Prepared:
    if len(graph) < 2:
        raise DataError("The graph has one node, and vectors of nodes need at least 2; give more edges.")
    metadata = metadata | {"visits_per_epoch": int(counts.sum())}
    keep = keep_probabilities(counts, model.subsample)
    doubt = doubt_of_weights(graph.csr.weights)
    return Prepared(source, graph.keys, counts, keep, source.unit, metadata, doubt=doubt)


def doubt_of_weights(weights_E: np.ndarray) -> str | None:
    """What is said of weights that are as large as the times of a list of timed edges: seconds since 1973 or later."""
    if not len(weights_E) or weights_E.min() < LEAST_TIME:
        return None
    return (
        f"All weights are {LEAST_TIME:,} or more, as Unix times are: the third column was read as weights. If it holds "
        "times, leave it out by --no-weighted (GraphOptions(weighted=False) in Python)."
    )


def _digest(graph: Graph) -> str:
    keys = Keys.of(graph.keys)
    return fingerprint(*graph.csr, keys.arena, keys.offsets)


def walk_options(model: WalkModel) -> WalkOptions:
    """The walks of a model; DeepWalk has p = q = 1."""
    from any2vec.sampling.walks import WalkOptions

    return WalkOptions(
        walks_per_node=model.walks_per_node,
        walk_length=model.walk_length,
        p=getattr(model, "p", 1.0),
        q=getattr(model, "q", 1.0),
    )
