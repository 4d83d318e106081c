"""Imported before all else by tests that cannot even be read without PyTorch: there they are skipped."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="models of clicks need torch")
