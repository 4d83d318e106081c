"""Check the golden runs: python tests/golden/check.py [--against COMMIT] [--only NAME...]

Prints a line for each run: equal, or differs and which array or count. Exit code 1 where one differs or fails.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.record import judging


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--against", metavar="COMMIT", help="compare with this commit, carried out beside, not the file"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these runs alone")
    parser.add_argument("--list", action="store_true", help="show the runs and what is left out, and end")
    options = parser.parse_args()
    words: dict[str, int] = {}
    bad = 0
    with judging(options.against) as judge:
        if unknown := set(options.only or ()) - judge.here.runs.keys():
            parser.error(f"there is no run {min(unknown)}; there are {', '.join(judge.here.runs)}")
        if options.list:
            print(*judge.here.runs, sep="\n")
            for name, reason in judge.here.left_out.items():
                print(f"left out: {name}: {reason}")
            return 0
        for name in options.only or judge.here.runs:
            verdict = judge.verdict(name)
            bad += verdict.is_bad
            words[verdict.word] = words.get(verdict.word, 0) + 1
            print(f"{name:<40} {verdict.word:<8} {verdict.seconds:6.2f} s", *verdict.lines, sep="\n    ", flush=True)
    print(", ".join(f"{count} {word}" for word, count in words.items()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
