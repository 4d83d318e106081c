"""Reading and encoding a text by any2vec, compilation apart: one JSON line."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()

    from any2vec.data.text.text import encode_text

    seconds, tokens = [], 0
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder) / "tiny.txt"
        tiny.write_text("one two three\n" * 10)
        encode_text(str(tiny), cache_dir=Path(folder) / "warm")  # compiles
        Path(args.text).read_bytes()  # the page cache is warm for every repeat
        for repeat in range(args.repeats):
            started = time.perf_counter()
            corpus = encode_text(args.text, cache_dir=Path(folder) / str(repeat))
            seconds.append(time.perf_counter() - started)
            tokens = corpus.num_tokens
    print(json.dumps({"seconds": seconds, "tokens": tokens}))


if __name__ == "__main__":
    main()
