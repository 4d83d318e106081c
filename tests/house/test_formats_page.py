"""The page of files and formats names every format, every file of a folder, every field and version."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from any2vec.formats import FORMATS
from any2vec.train import checkpoint, run_folder
from any2vec.types import Progress

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
NAMED = {*re.findall(r"`([^`\n]+)`", PAGE)}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_of_vectors_has_a_line(name: str) -> None:
    known = FORMATS[name]
    (line,) = re.findall(rf"^\| `{name}` \|(.*)\|$", PAGE, re.M)
    file, keys, half, _ = line.split("|")
    assert ("folder" in file) is known.is_folder and all(f"`{suffix}`" in file for suffix in known.suffixes)
    assert ("NAME.vocabulary.tsv" in keys) is known.has_vocabulary_beside
    assert ("●" in half) is known.has_half


def test_every_file_of_a_run_and_every_field_of_a_record_is_there() -> None:
    files = {*run_folder._KNOWN, *run_folder._BESIDE, run_folder.ABOUT, checkpoint.FILE, run_folder.TABLE}
    assert files <= NAMED
    assert {field.name for field in fields(Progress)} <= NAMED


def test_every_format_with_a_name_is_there() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = {*re.findall(r'FORMAT(?:, VERSION)? = "(any2vec-[\w-]+)"', sources)}
    assert len(named) >= 10
    assert named - NAMED <= {"any2vec-partitions", "any2vec-triple-buckets"}  # of unfinished runs, for `check` alone
    assert f"`any2vec-checkpoint`, version {checkpoint.VERSION}" in PAGE
