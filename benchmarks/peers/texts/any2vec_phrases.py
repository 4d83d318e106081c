"""Phrases of a text by any2vec, found and joined, compilation apart: one JSON line."""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    from any2vec import Phrases

    with tempfile.TemporaryDirectory() as folder:
        tiny = Phrases.fit(["new york is new york"] * 20, threshold=0.1, threads=1, cache_dir=folder)
        tiny.write(["new york"], Path(folder) / "tiny.txt", threads=1, cache_dir=folder)  # compiles
        Path(args.text).read_bytes()  # the page cache is warm
        started = time.perf_counter()
        phrases = Phrases.fit(args.text, threads=1, cache_dir=folder)
        found = time.perf_counter()
        phrases.write(args.text, args.out, overwrite=True, threads=1, cache_dir=folder)
        seconds = found - started, time.perf_counter() - found
    digest = hashlib.sha256("\n".join(sorted(phrases.scores)).encode()).hexdigest()
    print(json.dumps({"find_seconds": seconds[0], "join_seconds": seconds[1], "phrases": len(phrases), "hash": digest}))


if __name__ == "__main__":
    main()
