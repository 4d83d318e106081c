"""The golden file: hashes of runs by the kind of machine, and why they were made again; and what stands in for it.

Where it knows nothing of a run on this kind of machine, or something else, the run is compared with the same run at the
commit that made the hashes last, carried out beside it: that a processor sums in another order is no change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden.bench import ROOT, Runner, differences, git, runner_at
from golden.machine import key_of, kind_of, missing

FILE = Path(__file__).resolve().with_name("hashes.json")
_PATH = FILE.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Verdict:
    """What came of a run."""

    word: str
    """equal, differs, fails, new, anew or skipped"""
    lines: list[str]
    seconds: float = 0.0

    @property
    def is_bad(self) -> bool:
        return self.word in ("differs", "fails")


def load() -> dict[str, Any]:
    """The golden file."""
    if not FILE.exists():
        return {"kinds": {}, "history": []}
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def store(content: dict[str, Any]) -> None:
    """Write the golden file."""
    aside = FILE.with_suffix(".tmp")
    aside.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    aside.replace(FILE)


class Judge:
    """Compares runs of this tree with the golden file or with another commit."""

    def __init__(self, stack: ExitStack, against: str | None = None) -> None:
        self.content = load()
        self._stack = stack
        self._against = against
        self.here = stack.enter_context(Runner())
        self._base: tuple[str, Runner, dict[str, str]] | str | None = None

    def verdict(self, name: str) -> Verdict:
        """Carry out a run and compare it."""
        run = self.here.runs[name]
        if lacking := missing(run["needs"]):
            return Verdict("skipped", [f"it needs {lacking}"])
        kind = self.content["kinds"].get(key_of(kind_of(self.here.machine, run["needs"])), {"runs": {}})
        if self._against is None and name in kind["runs"]:
            verdict = _judged(kind["runs"][name], self.here.run(name))
            if verdict.word != "differs":
                return verdict
            beside = self._beside(name)
            return beside if beside.word in ("equal", "anew") else verdict
        return self._beside(name)

    def _beside(self, name: str) -> Verdict:
        """The verdict of a run that is compared with the commit before."""
        if self._base is None:
            self._base = self._base_of()
        if isinstance(self._base, str):
            return Verdict("skipped", [self._base])
        commit, runner, made_anew = self._base
        if name not in runner.runs:
            return Verdict("new", [f"commit {commit[:12]} has no such run"])
        former, found = runner.run(name), self.here.run(name)
        if "error" in former:
            return Verdict("fails", [f"at commit {commit[:12]}: {former['error'].strip()}"])
        verdict = _judged(former, found)
        if verdict.word == "differs" and name in made_anew:
            return Verdict("anew", [f"its hashes were made again: {made_anew[name]}"], verdict.seconds)
        return Verdict(
            verdict.word, [f"{line} (since commit {commit[:12]})" for line in verdict.lines], verdict.seconds
        )

    def _base_of(self) -> tuple[str, Runner, dict[str, str]] | str:
        """(commit, its runs, run -> reason of those whose hashes were made again since), or why there is none."""
        commit = self._against or _last_making()
        if commit is None:
            return (
                "the golden file knows no such kind of machine, and there is no git history to compare with; fetch it "
                "(git fetch --unshallow), or run `python tests/golden/make.py`"
            )
        before = git("show", f"{commit}:{_PATH}")
        known = len(json.loads(before)["history"]) if before else 0
        entries = self.content["history"][known:] if self._against is None else []
        made_anew = {name: entry["reason"] for entry in entries for name in entry["changed"]}
        return commit, self._stack.enter_context(runner_at(commit)), made_anew


@contextmanager
def judging(against: str | None = None) -> Iterator[Judge]:
    """A judge; its processes and folders are gone at the end."""
    with ExitStack() as stack:
        yield Judge(stack, against)


def _judged(expected: dict[str, Any], found: dict[str, Any]) -> Verdict:
    lines = differences(expected, found)
    word = "fails" if "error" in found else "differs" if lines else "equal"
    return Verdict(word, lines, found.get("seconds", 0.0))


def _last_making() -> str | None:
    """The commit that made the hashes last; the one before it where nothing has changed since, or no hash is known.

    None where there is no such commit.
    """
    head, last = git("rev-parse", "HEAD"), git("log", "-1", "--format=%H", "--", _PATH)
    if not head:
        return None
    if last and last != head:
        return last
    is_changed = git("diff", "--quiet", "HEAD", "--", "src") is None
    return head if is_changed else git("rev-parse", "--verify", "--quiet", "HEAD^")
