"""The site of the documentation: `python -m sphinx -W -b html docs runs/site`."""

from __future__ import annotations

import re
from typing import Any

from any2vec import __version__

project = "any2vec"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "any2vec"
html_copy_source = False
myst_heading_anchors = 3
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {
    "members": True,
    "inherited-members": "object, BaseEstimator, ClassifierMixin, TransformerMixin, Module, Exception",
}


def setup(app: Any) -> None:
    """What scikit-learn adds to every estimator is told by its own documentation."""
    app.connect("autodoc-skip-member", lambda app, what, name, *_: True if _OF_SKLEARN.match(name) else None)


_OF_SKLEARN = re.compile(r"(set_\w+_request|get_metadata_routing|set_output)$")
