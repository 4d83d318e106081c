"""The site of the documentation: it is built without a warning, and its reference has every public name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import any2vec

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_has_every_public_name() -> None:
    pages = [path.read_text(encoding="utf-8") for path in DOCS.glob("api/*.md")]
    found = [
        name for page in pages for name in re.findall(r"^\.\. auto(?:class|function|exception):: (\w+)$", page, re.M)
    ]
    assert {*any2vec.__all__} - {"__version__"} <= {*found} and len(found) == len({*found})


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason='the site needs pip install "any2vec[docs]"')
    pytest.importorskip("torch", reason="layers of graph networks need torch")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(DOCS), str(tmp_path / "site")]
    built = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "site" / "api" / "models.html").read_text(encoding="utf-8")
    assert 'id="any2vec.SkipGram.window"' in page
