"""The character model's steps on the pairs of a text, without a stream around them: one JSON line.

Writes the same pairs for the peer that encodes every occurrence.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from any2vec.data.options import TextOptions
from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.encoders.spelling import spell
from any2vec.models.stream.char_lstm import StreamedCharLstm
from any2vec.models.stream.config import StreamCharLstm
from any2vec.models.stream.token_batch import TokenBatch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True)
    parser.add_argument("--pairs", required=True, help="npz to write")
    parser.add_argument("--batch", type=int, required=True, help="pairs of a step")
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--byte-dim", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--words", type=int, default=100_000, help="about")
    args = parser.parse_args()
    data = Path(args.text).read_bytes()[: 6 * args.words]
    text_B = np.frombuffer(data[: data.rindex(b"\n") + 1], np.uint8)
    vocabulary = StreamVocabulary(max_types=1 << 18, max_rows=1 << 17, min_count=2, half_life=None, text=TextOptions())
    stop_N = np.flatnonzero(text_B == ord("\n")) + 1
    for _ in range(2):  # in the second reading words have rows
        tokens = vocabulary.encode(text_B, stop_N)
    tokens.flags.writeable = False
    model = StreamCharLstm(hidden=args.hidden, byte_dim=args.byte_dim, batch_pairs=args.batch)
    learner = StreamedCharLstm(model, max_rows=vocabulary.max_rows, threads=args.threads, seed=1)
    learner.compile()
    keep_V = np.minimum(vocabulary.keep(model.subsample) * 2.0**32, 2.0**32).astype(np.uint64)

    def batch(start: int, stop: int) -> TokenBatch:
        part = tokens[start:stop]
        return TokenBatch(
            0, part, start, np.zeros(0, np.int64), *vocabulary.noise(), keep_V, 1.0, part.size, start, (),
            learner.prepare(part, vocabulary),
        )  # fmt: skip

    first = batch(0, len(tokens) // 8)
    learner.run(first.work)  # what PyTorch sets up at the first step is not counted
    began, cpu = time.perf_counter(), time.process_time()
    rest = batch(len(tokens) // 8, len(tokens))
    stats = learner.run(rest.work)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    rows = vocabulary.rows()
    symbols, sizes = spell(vocabulary.keys(rows))
    place_V = np.zeros(vocabulary.max_rows, np.int64)
    place_V[rows] = np.arange(len(rows))
    pairs = place_V[learner._pairs(rest, 0, len(rest.tokens))]
    np.savez(args.pairs, symbols=symbols, sizes=sizes, pairs=pairs, noise=vocabulary.counts_V[rows] ** 0.75)
    done = stats.loss_examples
    print(
        json.dumps(
            {
                "pairs": done, "pairs_per_s": done / seconds, "seconds": seconds, "cpu_seconds": cpu,
                "loss": stats.loss_sum / done,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
