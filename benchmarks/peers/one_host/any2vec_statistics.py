"""Statistics of a stream by themselves: resident memory as words come, or seconds of encoding; one JSON line."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 1 << 20
"""bytes of a batch, and of a block of a file"""


SMALL = {"max_types": 1 << 18, "max_rows": 1 << 16, "pair_bytes": 1 << 26, "replay_words": 1 << 22}
GIGABYTE = {"max_types": 1 << 21, "max_rows": 1 << 19, "pair_bytes": 1 << 29, "replay_words": 1 << 24}
"""arrays of these sizes take 1 GB together: words 240 MB, pairs 550 MB, sentences 140 MB"""


def watch_memory(words: list[int], is_gigabyte: bool) -> dict[str, Any]:
    """Resident bytes behind so many words, with a budget that is used up long before the first of them."""
    from any2vec.data.stream.pairs import StreamPairs
    from any2vec.data.stream.vocabulary import StreamVocabulary
    from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key
    from any2vec.machine import resident_bytes
    from any2vec.sampling.replay import ReplayBuffer
    from any2vec.testing.planted_stream import PlantedStream

    size = GIGABYTE if is_gigabyte else SMALL
    # New types, n**0.83 of n words; to fill the larger tables in time, all words are such.
    stream = PlantedStream(words_per_line=20, zipf=1.2, topic_share=0.0 if is_gigabyte else 0.5)
    keep_V, key, offset, line = np.full(size["max_rows"], 1 << 32, np.uint64), stream_key(1, PURPOSE_TOKEN), 0, 0
    stream.batch(0, 4096)
    before, resident = resident_bytes()[0], []
    vocabulary = StreamVocabulary(
        max_types=size["max_types"], max_rows=size["max_rows"], min_count=1 if is_gigabyte else 5, half_life=5_000_000
    )
    pairs = StreamPairs(max_rows=size["max_rows"], budget_bytes=size["pair_bytes"], half_life=5_000_000)
    replay = ReplayBuffer(max_tokens=size["replay_words"])
    for until in words:
        while vocabulary.position < until:
            batch = stream.batch(line, line + 4096)
            tokens = vocabulary.encode(batch.text_B, batch.stop_N)
            vocabulary.born()
            vocabulary.noise()
            vocabulary.keep(1e-4)
            pairs.add(tokens, keep_V, key, offset, vocabulary.birth_V)
            replay.put(tokens, vocabulary.births)
            replay.draw(256, vocabulary.birth_V)
            line, offset = line + 4096, offset + len(tokens)
        resident.append(resident_bytes()[0])
    return {
        "resident": resident, "before": before, "births": vocabulary.births, "rows": vocabulary.num_rows,
        "types": vocabulary.num_types, "lacks": vocabulary.missed, "is_exact": pairs.is_exact, "sentences": len(replay),
        **size,
    }  # fmt: skip


def time_encoding(path: Path, repeats: int) -> dict[str, Any]:
    """Seconds of this thread for the same blocks, in turns: the encoder of files (nothing is written), the stream's."""
    from any2vec.data.options import TextOptions
    from any2vec.data.stream.vocabulary import StreamVocabulary
    from any2vec.data.text.encoder import WordEncoder, text_classes
    from any2vec.data.text.normalize import Normalizer

    class Nowhere:
        def append(self, tokens: np.ndarray) -> None:
            pass

    data, blocks, at = path.read_bytes(), [], 0
    while (stop := data.rfind(b"\n", at, at + BLOCK) + 1) > at:
        blocks.append(data[at:stop])
        at = stop
    arrays = [np.frombuffer(block, np.uint8) for block in blocks]
    batches = [(text_B, np.flatnonzero(text_B == 10) + 1) for text_B in arrays]
    seconds: dict[str, list[float]] = {"file": [], "stream": []}
    for repeat in range(repeats + 1):  # the first one compiles
        started = time.thread_time()
        words = WordEncoder(Nowhere(), text_classes())  # type: ignore[arg-type]
        for piece in Normalizer("The text", TextOptions(), is_part=True).pieces(blocks):
            words.feed(piece)
        between = time.thread_time()
        vocabulary = StreamVocabulary(max_types=1 << 20, max_rows=1 << 17, half_life=5_000_000)
        for text_B, stop_N in batches:
            vocabulary.encode(text_B, stop_N)
            vocabulary.born()
        if repeat:
            seconds["file"].append(between - started)
            seconds["stream"].append(time.thread_time() - between)
    return {"seconds": seconds, "words": vocabulary.position}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, nargs="*", default=[])
    parser.add_argument("--gigabyte", action="store_true", help="arrays of 1 GB in all")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()
    print(json.dumps(watch_memory(args.words, args.gigabyte) if args.words else time_encoding(args.text, args.repeats)))


if __name__ == "__main__":
    main()
