"""`any2vec data`: the catalogue of public sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.bar import Bar
from any2vec.cli.output import columns, facts, guarded, print_json, show, size
from any2vec.cli.search import AsJson
