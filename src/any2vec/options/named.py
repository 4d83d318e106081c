"""What a function says of an option that it has not got: the nearest of its own, or where else it belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from any2vec.checks import did_you_mean, nearest_names
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
GROUPS = {
    "TextOptions": "any2vec.data.options",
    "GraphOptions": "any2vec.data.options",
    "NodeOptions": "any2vec.data.options",
    "TripleOptions": "any2vec.data.options",
    "InteractionOptions": "any2vec.data.interactions.options",
    "ClickSchema": "any2vec.data.clicks.schema",
    "HostOptions": "any2vec.options.hosts",
    "SyncOptions": "any2vec.options.sync",
    "StorageOptions": "any2vec.options.storage",
    "SourceOptions": "any2vec.sources.base.options",
    "StreamOptions": "any2vec.tasks.stream.options",
}
"""class of options that an argument takes, as its annotation has it -> the module where it stands"""


def named_options(config_of: Callable[[str], Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function whose first argument is a model: an option that it has not got is an InputError, in one sentence.

    config_of: makes the config of a model that is given by its name; InputError where there is none.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = signature(function).parameters

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            for name in options:
                if name not in parameters:
                    model = args[0] if args else options.get("model")
                    raise unknown_option(function, name, model=_kind_of(model, config_of))
            return function(*args, **options)

        return call

    return decorate


def unknown_option(
    function: Callable[..., Any], name: str, more: Sequence[str] = (), model: type | None = None
) -> InputError:
    """What is said of an option that a function has not got: where it belongs, or the nearest that there is.

    more: names that it takes besides those of its signature. model: the class of the config that it was given.
    """
    named = [one for one in signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY]
    known, here = [*(one.name for one in named), *more], names_here(name)
    groups = {
        f"{one.name}={kind}": loaded(f"{place}:{kind}")
        for one in named for kind, place in GROUPS.items() if kind in str(one.annotation)
    }  # fmt: skip
    own = {} if model is None or not is_dataclass(model) else {model.__name__: model}
    for kinds, what in ((own, "it is one of the model"), (groups, "it belongs to options")):
        if listed := next(filter(None, (_having(one, kinds) for one in here)), None):
            return InputError(f"{function.__name__} has no option {name!r}; {what}: {listed}.")
    end = did_you_mean(here[-1], known)
    if not nearest_names(here[-1], known):
        near = nearest_names(here[-1], {item.name for kind in (own | groups).values() for item in fields(kind)})
        end = f"did you mean {_having(near[0], own) or _having(near[0], groups)}?" if near else end
    return InputError(f"{function.__name__} has no option {name!r}; {end}")


def names_here(name: str) -> tuple[str, ...]:
    """The name, and what may be meant by it here; what is likeliest comes last."""
    return name, *ELSEWHERE.get(name, ())


def _kind_of(model: Any, config_of: Callable[[str], Any]) -> type | None:
    """The class of a model's config; None: there is no model of that name."""
    try:
        config = config_of(model) if isinstance(model, str) else model
    except InputError:
        return None
    return config if isinstance(config, type) else type(config)


def _having(name: str, kinds: Mapping[str, Any]) -> str:
    """How the name is given where it is a field; "": of none of these classes."""
    having = (spelled for spelled, kind in kinds.items() if name in {item.name for item in fields(kind)})
    return " or ".join(f"{spelled}({name}=...)" for spelled in having)
