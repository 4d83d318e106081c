"""Make the hashes of golden runs again, for this kind of machine: python tests/golden/make.py --reason "why"

Each run is carried out twice, in processes of their own and in another order, and taken only if both are equal. What
has changed is printed; with a changed run, what other kinds of machines had for it goes, for it is out of date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.bench import Runner, differences
from golden.machine import key_of, kind_of, missing
from golden.record import load, store


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reason", required=True, help="why the hashes are made again; it is written into the file")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these runs alone")
    options = parser.parse_args()
    with Runner() as first:
        if unknown := set(options.only or ()) - first.runs.keys():
            parser.error(f"there is no run {min(unknown)}; there are {', '.join(first.runs)}")
        names = [name for name in options.only or first.runs if missing(first.runs[name]["needs"]) is None]
        found = {name: answered(first, name) for name in names}
    with Runner() as second:
        bad = [name for name in reversed(names) if not repeats(second, name, found[name])]
        runs, machine = second.runs, second.machine
    if bad:
        print(f"Nothing is written: {len(bad)} of {len(names)} runs fail or do not repeat: {', '.join(bad)}.")
        return 1
    content = load()
    changed, new = taken(content, found, {name: kind_of(machine, runs[name]["needs"]) for name in names})
    gone = [] if options.only else removed(content, set(runs))
    if changed or new or gone:
        entry = {"reason": options.reason, "changed": sorted(changed), "new": sorted(new), "removed": sorted(gone)}
        content["history"].append(entry)
        store(content)
    print(f"{len(names)} runs: {len(changed)} changed, {len(new)} new, {len(gone)} removed.")
    return 0


def answered(runner: Runner, name: str) -> dict[str, Any]:
    """The answer of a run, announced."""
    answer = runner.run(name)
    print(f"{name:<40} {'fails' if 'error' in answer else format(answer['seconds'], '6.2f') + ' s'}", flush=True)
    return answer


def repeats(runner: Runner, name: str, expected: dict[str, Any]) -> bool:
    """Whether a run gives the same once more; what is not the same is printed."""
    lines = [expected["error"].strip()] if "error" in expected else differences(expected, runner.run(name))
    for line in lines:
        print(f"{name}: not the same twice: {line}", flush=True)
    return not lines


def taken(
    content: dict[str, Any], found: dict[str, dict[str, Any]], kinds: dict[str, dict[str, Any]]
) -> tuple[list[str], list[str]]:
    """(changed, new) runs of those found, once they stand in the content."""
    changed, new = [], []
    for name, answer in found.items():
        key = key_of(kinds[name])
        kind = content["kinds"].setdefault(key, {"machine": kinds[name], "runs": {}})
        former = kind["runs"].get(name)
        kind["runs"][name] = {"arrays": answer["arrays"], "counts": answer["counts"]}
        if former is None:
            new.append(name)
        elif lines := differences(former, answer):
            changed.append(name)
            print(f"{name} has changed:", *lines, sep="\n    ")
            for other, entry in content["kinds"].items():
                if other != key:
                    entry["runs"].pop(name, None)
    return changed, new


def removed(content: dict[str, Any], names: set[str]) -> set[str]:
    """The runs in the content that there are no more; they go."""
    gone: set[str] = set()
    for entry in content["kinds"].values():
        old = entry["runs"].keys() - names
        gone |= old
        for name in old:
            del entry["runs"][name]
    return gone


if __name__ == "__main__":
    sys.exit(main())
