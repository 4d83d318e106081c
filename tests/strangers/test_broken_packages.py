"""Packages whose entry points cannot be imported: one clear error, whatever they register."""

from __future__ import annotations

from pathlib import Path

import pytest
from stranger_packages import install, run

TRAIN = ("train", "dot", "triples.tsv", "--out", "out", "--logical-hosts", "2", "--batch-size", "8")


@pytest.mark.parametrize(
    ("group", "noun", "words"),
    [
        ("any2vec.tasks", "task", TRAIN),
        ("any2vec.models.triples", "model", ("train", "odd", "triples.tsv", "--out", "out")),
        ("any2vec.rules", "merge rule", (*TRAIN, "--sync", "odd")),
        ("any2vec.residencies", "cache policy", (*TRAIN, "--cache", "het:4:odd")),
        ("any2vec.freshness", "freshness", (*TRAIN, "--cache", "odd:4")),
    ],
)
def test_what_cannot_be_imported_is_named_with_its_package(
    group: str, noun: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    install(tmp_path, "odd", {f"{group}:odd": "odd:Odd"}, "import absent_library\n")
    (tmp_path / "triples.tsv").write_text("".join(f"e{at}\tr\te{at + 1}\n" for at in range(40)))
    done = run(tmp_path, "-m", "any2vec", *words)
    told = " ".join(done.stderr.split())
    sentence = f"The {noun} odd of the package odd cannot be loaded from odd:Odd: ModuleNotFoundError: No module named"
    assert done.returncode == 2, done.stderr
    assert sentence in told and "fix the package or uninstall it." in told
