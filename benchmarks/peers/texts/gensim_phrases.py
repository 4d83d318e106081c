"""gensim's phrases of a text file, found and joined, a sentence a line: one JSON line. In the environment 'gensim'."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    from gensim.models.phrases import Phrases
    from gensim.models.word2vec import LineSentence

    Path(args.text).read_bytes()  # the page cache is warm
    sentences = LineSentence(args.text, max_sentence_length=10**9)
    started = time.perf_counter()
    phrases = Phrases(sentences).freeze()
    found = time.perf_counter()
    with Path(args.out).open("w", encoding="utf-8") as file:
        for words in phrases[sentences]:
            file.write(" ".join(words) + "\n")
    seconds = found - started, time.perf_counter() - found
    names = sorted(phrases.phrasegrams)
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    print(json.dumps({"find_seconds": seconds[0], "join_seconds": seconds[1], "phrases": len(names), "hash": digest}))


if __name__ == "__main__":
    main()
