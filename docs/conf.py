"""The site of the documentation: `python -m sphinx -W -b html docs runs/site`."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes

from any2vec import __version__

project = "any2vec"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "any2vec"
html_copy_source = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]
maximum_signature_line_length = 88
myst_enable_extensions = ["html_image"]  # an <img> of a page is a picture of the site
myst_heading_anchors = 3
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {
    "members": True,
    "inherited-members": "object, BaseEstimator, ClassifierMixin, TransformerMixin, Module, Exception",
}


def setup(app: Any) -> None:
    """The reference as a reader wants it: plain types, our own members, and sentences about fields left whole."""
    app.connect("autodoc-skip-member", lambda app, what, name, *_: True if _NOT_SHOWN.fullmatch(name) else None)
    app.connect("autodoc-process-signature", _plain_signature)
    app.connect("object-description-transform", _plain_type)
    app.connect("autodoc-process-docstring", _keep, priority=400)  # napoleon comes at 500
    app.connect("autodoc-process-docstring", _restore, priority=600)


_NOT_SHOWN = re.compile(
    r"set_\w+_request|get_metadata_routing|set_output"  # what scikit-learn adds to every estimator, and tells
    r"|block_centers|cost|default_order|dense_share|has_weights|is_cosine|shared_for_five|start_spread"  # of learners
    r"|dense_widths|fanouts_of|negatives_of|num_relation_rows|of|parts_of|start_dense|widths"  # of tasks
)
_CHECKED = re.compile(r"Annotated\[([^\[\]]*(?:\[[^\[\]]*\])?[^\[\]]*?), (?:Whole|Number)\([^()]*\)\]")
"""a type with the interval of its values, which the sentence below it says"""
_said: dict[str, list[str]] = {}


def _plain_signature(app: Any, what: str, name: str, value: Any, options: Any, signature: str, returned: str) -> Any:
    return (_CHECKED.sub(r"\1", signature), returned) if signature else None


def _plain_type(app: Any, domain: str, kind: str, content: Any) -> None:
    """Of attributes, whose type is no signature."""
    for signature in content.parent.findall(addnodes.desc_signature):
        for part in signature.findall(addnodes.desc_annotation):
            plain = _CHECKED.sub(r"\1", part.astext())
            if plain != part.astext():
                part.clear()
                part += nodes.Text(plain)


def _keep(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Napoleon takes what stands before a colon in the sentence below a field for its type."""
    if what in ("attribute", "data", "property"):
        _said[name] = list(lines)


def _restore(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    if name in _said:
        lines[:] = _said.pop(name)
