"""gensim's word2vec on a text file, a sentence a line: one JSON line. Runs in the environment 'gensim'."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path


def anonymous_bytes() -> int:
    """Anonymous and shared resident memory of this process; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon", "RssShmem")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True)
    parser.add_argument("--model", choices=["skipgram", "cbow", "ngram"], default="skipgram")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--window", type=int, default=5)
    parser.add_argument("--num-negatives", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--subsample", type=float, default=1e-4)
    parser.add_argument("--min-count", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=0.025)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", choices=["corpus_file", "line_sentence"], default="corpus_file")
    parser.add_argument("--buckets", type=int, default=2_000_000, help="of ngram, which is gensim's FastText")
    parser.add_argument("--out", help="word2vec binary file to write")
    parser.add_argument("--more", help="words, one a line, whose vectors are written, too, where training had none")
    args = parser.parse_args()

    import gensim
    import numpy as np
    from gensim.models import FastText, KeyedVectors, Word2Vec
    from gensim.models.word2vec import FAST_VERSION, LineSentence

    if FAST_VERSION < 0:
        raise SystemExit("gensim runs without its compiled kernels here: the comparison would be unfair")
    bare_bytes = anonymous_bytes()
    is_ngram = args.model == "ngram"
    kind = FastText if is_ngram else Word2Vec
    model = kind(
        vector_size=args.dim,
        window=args.window,
        negative=args.num_negatives,
        sample=args.subsample,
        alpha=args.learning_rate,
        min_alpha=1e-4,
        min_count=args.min_count,
        hs=0,
        sg=int(args.model != "cbow"),
        **({"bucket": args.buckets, "min_n": 3, "max_n": 6} if is_ngram else {}),
        workers=args.threads,
        seed=args.seed,
        epochs=args.epochs,
    )
    from_file = args.reader == "corpus_file"
    corpus = {"corpus_file": args.text} if from_file else {"corpus_iterable": LineSentence(args.text)}
    started = time.perf_counter()
    model.build_vocab(**corpus)
    vocabulary_seconds = time.perf_counter() - started
    words = int(sum(model.wv.get_vecattr(key, "count") for key in model.wv.key_to_index))
    if from_file:
        corpus["total_words"] = model.corpus_total_words
    started = time.perf_counter()
    model.train(**corpus, total_examples=model.corpus_count, epochs=args.epochs)
    train_seconds = time.perf_counter() - started
    if args.out:
        kept = model.wv
        if args.more:  # a copy, which no row that looks at memory asks for
            kept = KeyedVectors(args.dim)
            kept.add_vectors(model.wv.index_to_key, model.wv.vectors)
            asked = Path(args.more).read_text().split()
            more = list(dict.fromkeys(word for word in asked if word not in model.wv.key_to_index))
            if more:
                kept.add_vectors(more, [model.wv[word] for word in more])
        kept.save_word2vec_format(args.out, binary=True)
    result = {
        "rows": len(model.wv),
        "words": words,
        "items_per_s": words * args.epochs / train_seconds,
        "vocabulary_seconds": vocabulary_seconds,
        "train_seconds": train_seconds,
        "bare_anon_bytes": bare_bytes,
        "versions": {"gensim": gensim.__version__, "numpy": np.__version__},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
