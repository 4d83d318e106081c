"""What a function says of an option that it has not got: the nearest of its own, or where else it belongs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from any2vec.checks import did_you_mean
from any2vec.errors import InputError
from any2vec.registry import loaded

P = ParamSpec("P")
T = TypeVar("T")

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "vector_size": ("dim",),
    "embedding_dim": ("dim",),
    "dimensions": ("dim",),
    "factors": ("dim",),
    "hidden_channels": ("hidden",),
    "alpha": ("teleport", "learning_rate"),
    "lr": ("learning_rate",),
    "negative": ("num_negatives",),
    "num_negs_per_pos": ("num_negatives",),
    "regularization": ("l2",),
    "min_alpha": ("min_learning_rate",),
    "max_final_vocab": ("max_vocab",),
    "sample": ("subsample",),
    "workers": ("threads",),
    "num_workers": ("threads",),
    "n_jobs": ("threads",),
    "num_threads": ("threads",),
    "n_epochs": ("epochs",),
    "num_epochs": ("epochs",),
    "max_epochs": ("epochs",),
    "iterations": ("epochs",),
    "iter": ("epochs",),
    "random_state": ("seed",),
    "random_seed": ("seed",),
}
"""names that gensim, PyG, PyKEEN, implicit, scikit-learn and others have for what is named differently here"""
READINGS = {
    "text": "any2vec.data.options:TextOptions",
    "graph": "any2vec.data.options:GraphOptions",
    "triples": "any2vec.data.options:TripleOptions",
    "interactions": "any2vec.data.interactions.options:InteractionOptions",
}
"""argument -> "module:class" of the options of reading that it takes"""


def named_options(config_of: Callable[[str], Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function whose first argument is a model: an option that it has not got is an InputError, in one sentence.

    config_of: makes the config of a model that is given by its name; InputError where there is none.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = signature(function).parameters
        named = [one.name for one in parameters.values() if one.kind is one.KEYWORD_ONLY]

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            for name in options:
                if name not in parameters:
                    model, here = args[0] if args else options.get("model"), names_here(name)
                    own = (_of_model(model, known, config_of) for known in here)
                    of_reading = (_of_reading(known, named) for known in here)
                    end = next(filter(None, (*own, *of_reading)), None) or did_you_mean(here[-1], named)
                    raise InputError(f"{function.__name__} has no option {name!r}; {end}")
            return function(*args, **options)

        return call

    return decorate


def names_here(name: str) -> tuple[str, ...]:
    """The name, and what may be meant by it here; what is likeliest comes last."""
    return name, *ELSEWHERE.get(name, ())


def _of_model(model: Any, name: str, config_of: Callable[[str], Any]) -> str | None:
    """What to do instead where the option is a field of the model; None: it is none."""
    try:
        config = config_of(model) if isinstance(model, str) else model
        kind = config if isinstance(config, type) else type(config)
    except InputError:  # the name is wrong, too
        return None
    if not is_dataclass(kind) or name not in {item.name for item in fields(kind)}:
        return None
    return f"it is one of the model: {kind.__name__}({name}=...)."


def _of_reading(name: str, parameters: list[str]) -> str | None:
    """The same where it is a field of options of reading that the function takes."""
    kinds = {argument: loaded(place) for argument, place in READINGS.items() if argument in parameters}
    having = {argument: kind for argument, kind in kinds.items() if name in {item.name for item in fields(kind)}}
    if not having:
        return None
    listed = " or ".join(f"{argument}={kind.__name__}({name}=...)" for argument, kind in having.items())
    return f"it says how data are read: {listed}."
