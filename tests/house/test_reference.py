"""The reference: each public name has an example that runs, says its shapes, and what it raises; the site is built."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import any2vec
import any2vec.evaluate
from any2vec.checks import Number, Whole

PAGES = sorted((Path(__file__).parents[2] / "docs" / "api").rglob("*.md"))
NAME = re.compile(r"^\.\. auto(?:class|function|exception):: (\w+)$", re.M)
SHAPE = re.compile(
    r"\((?:[A-Z0-9]\w*(?: \+ \d)?|len|dim|rows|num\w*)|\([A-Z]\w*\)|[Aa]s `|1 dimension|one dimension|axes"
)
RECORDS = {"FitResult", "StreamResult", "Progress", "Callback"}
"""names that check nothing: what they hold was checked before"""
RETURNED = {name for name in any2vec.evaluate.__all__ if name.endswith("Result")} | {"Split"}
"""of any2vec.evaluate: what its functions return, which their examples show"""
HIDDEN = re.compile("".join(re.findall(r'^    r"(.*?)"', (PAGES[0].parents[1] / "conf.py").read_text("utf-8"), re.M)))
"""members that the site leaves out"""
NEEDED = {"OwnModule": {"module": "models:Net"}}
"""fields without which a config is none"""
AS_ELSEWHERE = {"NetworkClassifier.probabilities"}
"""its arrays are those of `score`"""


def example(page: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S))


def listed() -> dict[str, Path]:
    """Page of each name of the reference."""
    return {name: page for page in PAGES for name in NAME.findall(page.read_text(encoding="utf-8"))}


def named(name: str) -> Any:
    for room in (any2vec, any2vec.evaluate):
        if hasattr(room, name):
            return getattr(room, name)
    pytest.importorskip("torch", reason="layers of graph networks need torch")
    return getattr(importlib.import_module("any2vec.nn"), name)


def test_the_reference_has_every_public_name() -> None:
    found = [name for page in PAGES for name in NAME.findall(page.read_text(encoding="utf-8"))]
    assert {*any2vec.__all__} - {"__version__"} <= {*found} and len(found) == len({*found})
    assert {*any2vec.evaluate.__all__} <= {*found}


@pytest.mark.parametrize("name", sorted({*listed()} - RETURNED))
def test_a_name_stands_in_the_example_of_its_page(name: str) -> None:
    assert re.search(rf"\b(a2v|nn|evaluate)\.{name}\b", example(listed()[name])), (
        f"{listed()[name].name} has no example of it"
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if example(page)], ids=lambda page: page.stem)
def test_an_example_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.stem not in ("training", "errors"):
        pytest.importorskip("torch", reason="some models need torch")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():  # of torch, when torch_geometric is imported
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")
        exec(compile(example(page), page.name, "exec"), {})


def calls(value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """What of a name can be called: itself, or the methods of its class that are ours."""
    if not inspect.isclass(value):
        yield value.__name__, value
        return
    for name, found in inspect.getmembers(value, callable):
        is_ours = str(getattr(found, "__module__", "")).startswith("any2vec")
        if is_ours and not name.startswith("_") and name not in ("as_dict", "forward"):
            yield f"{value.__name__}.{name}", found


@pytest.mark.parametrize("name", sorted(listed()))
def test_calls_say_what_they_do_and_shapes_of_their_arrays(name: str) -> None:
    for full, call in calls(named(name)):
        said = inspect.getdoc(call)
        assert said, f"{full} says nothing"
        if "ndarray" in str(inspect.signature(call)) and full not in AS_ELSEWHERE:
            assert SHAPE.search(said), f"{full} does not say of what shape its arrays are"


@pytest.mark.parametrize("name", sorted(listed()))
def test_arguments_are_explained(name: str) -> None:
    """By the call's docstring, by that of its class, or by what the page says before its example."""
    value = named(name)
    by_page = listed()[name].read_text(encoding="utf-8").split("```")[0]
    for full, call in calls(value):
        if HIDDEN.fullmatch(full.rpartition(".")[2]):
            continue
        said = " ".join((inspect.getdoc(call) or "", inspect.getdoc(value) or "", by_page))
        asked = [one for one in inspect.signature(call).parameters if one not in ("self", "args", "kwargs")]
        untold = [one for one in asked if not re.search(rf"\b{one}\b", said)]
        assert not untold, f"{full} does not say what {untold} is"


@pytest.mark.parametrize("name", sorted(listed()))
def test_a_name_says_what_it_raises(name: str) -> None:
    value = named(name)
    if name in RECORDS | RETURNED or (inspect.isclass(value) and issubclass(value, BaseException)):
        return
    said = [inspect.getdoc(value) or "", *(inspect.getdoc(call) or "" for _, call in calls(value))]
    by_page = listed()[name].read_text(encoding="utf-8").split("```")[0]
    is_checked = is_dataclass(value) and bool(bounded(value))
    assert (
        any(re.search(r"[Rr]aises?\b|refuse", text) for text in said)
        or (is_checked and "InputError" in by_page)
        or ("raise" in by_page)
    ), f"neither {name} nor its page says what is raised"


def bounded(kind: Any) -> dict[str, Any]:
    """Fields of a dataclass that have an interval or choices, and a value of each that is neither."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for part in (hint, *get_args(hint)):
            if isinstance(part, Whole | Number):
                found[name] = part.high + 1
            elif get_origin(part) is Literal:
                found[name] = "nosuch"
    return {field.name: found[field.name] for field in fields(kind) if field.name in found}


@pytest.mark.parametrize(
    "name", sorted(name for name in any2vec.__all__ if is_dataclass(getattr(any2vec, name)) and name not in RECORDS)
)
def test_a_field_beyond_its_bounds_is_refused_by_name(name: str) -> None:
    kind = getattr(any2vec, name)
    for field, value in bounded(kind).items():
        with pytest.raises(any2vec.InputError, match=rf"\b{field}\b") as refused:
            kind(**NEEDED.get(name, {}) | {field: value})
        assert isinstance(value, str) or f"got {value!r}" in str(refused.value).replace(",", ""), str(refused.value)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason='the site needs pip install "any2vec[docs]"')
    pytest.importorskip("torch", reason="layers of graph networks need torch")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "-b",
        "html",
        str(PAGES[0].parents[1]),
        str(tmp_path / "site"),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "site" / "api" / "models" / "words.html").read_text(encoding="utf-8")
    assert 'id="any2vec.SkipGram.window"' in page
    assert "Annotated" not in page and "subsampling threshold, 0..1; 0: off" in page
    for gallery in ("reports", "index", "clicks"):
        pictures = re.findall(r'<img[^>]* src="([^"]+)"', (tmp_path / "site" / f"{gallery}.html").read_text("utf-8"))
        assert pictures and all((tmp_path / "site" / picture).is_file() for picture in pictures), gallery
