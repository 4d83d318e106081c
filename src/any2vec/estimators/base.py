"""What estimators share: parameters from the fields of configs, fitting, looking rows up."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

import any2vec
from any2vec.checks import did_you_mean
from any2vec.data.vocab.user_keys import column_of, listed, text_of
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.options.named import names_here

OWN = None
"""a parameter that is None takes the model's own default"""
_RUN = {"epochs": None, "threads": 0, "seed": 1}


def with_parameters(models: dict[str, type], options: type | None, /, **more: Any) -> Callable[[type], type]:
    """Give a class an `__init__` with one keyword per field of `models` and `options`, as scikit-learn reads it.

    A field that the models set differently has the default None: the chosen model's own. more: further parameters and
    their defaults.
    """
    defaults: dict[str, Any] = {"model": next(iter(models))}
    for config in models.values():
        for item in fields(config):
            value = item.default if item.default is not MISSING else None
            defaults[item.name] = value if defaults.get(item.name, value) == value else OWN
    defaults |= _RUN | more
    if options is not None:
        defaults |= {item.name: item.default for item in fields(options) if item.default is not MISSING}

    def decorate(cls: type) -> type:
        def __init__(self: Any, model: Any = defaults["model"], **parameters: Any) -> None:  # noqa: N807
            _check_known(cls, parameters, defaults)
            for name, value in (defaults | {"model": model} | parameters).items():
                setattr(self, name, value)

        def set_params(self: Any, **parameters: Any) -> Any:
            for name in parameters:
                if name.startswith("model__"):
                    field = name.removeprefix("model__")
                    raise InputError(f"{cls.__name__} has the model's options itself: set {field}, not {name}.")
            return BaseEstimator.set_params(self, **parameters)

        either, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        own = [inspect.Parameter("self", either)]
        own += [
            inspect.Parameter(name, either if name == "model" else keyword, default=value)
            for name, value in defaults.items()
        ]
        __init__.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        set_params.__doc__ = BaseEstimator.set_params.__doc__
        cls.__init__, cls.set_params = __init__, set_params  # type: ignore[misc, attr-defined]
        cls._models, cls._options = models, options  # type: ignore[attr-defined]
        return cls

    return decorate


def known_parameters(cls: type) -> type:
    """A class whose `__init__` refuses parameters that it has not got in one sentence."""
    own = cls.__init__  # type: ignore[misc]
    known = [name for name in inspect.signature(own).parameters if name != "self"]

    @functools.wraps(own)
    def __init__(self: Any, *values: Any, **parameters: Any) -> None:  # noqa: N807
        _check_known(cls, parameters, known)
        own(self, *values, **parameters)

    cls.__init__ = __init__  # type: ignore[misc]
    return cls


def _check_known(cls: type, parameters: Iterable[str], known: Iterable[str]) -> None:
    for name in parameters:
        if name not in known:
            raise InputError(f"{cls.__name__} has no parameter {name!r}; {did_you_mean(names_here(name)[-1], known)}")


def config_of(estimator: Any) -> Any:
    """The model that the parameters ask for: its name and fields, or a config as it stands.

    Raises:
        InputError: there is no such model; a field is set that the model has not got; or one stands beside a config.
    """
    values, models = estimator.get_params(deep=False), estimator._models
    model = values["model"]
    if isinstance(model, str):
        if model not in models:
            raise InputError(f"model must be one of {', '.join(models)}; got {model!r}.")
        _check_has(models[model], models, _fields_set(estimator))
        chosen = {item.name: values[item.name] for item in fields(models[model]) if values[item.name] is not OWN}
        return models[model](**chosen)
    if not isinstance(model, tuple(models.values())):
        known = ", ".join(config.__name__ for config in models.values())
        raise InputError(f"model must be the name of a model, or one of {known}; got {model!r}.")
    _check_has(type(model), models, beside := _fields_set(estimator))
    if beside:
        raise InputError(f"{beside[0]} stands in the config; set it there, or give the model by its name.")
    return model


def _fields_set(estimator: Any) -> list[str]:
    """The fields of any of the models whose parameters are not the default ones."""
    every = dict.fromkeys(item.name for config in estimator._models.values() for item in fields(config))
    defaults = inspect.signature(type(estimator)).parameters
    return [name for name in every if getattr(estimator, name) != defaults[name].default]


def _check_has(chosen: Any, models: dict[str, type], names: list[str]) -> None:
    for name in names:
        having = [one for one, config in models.items() if name in {item.name for item in fields(config)}]
        if name not in {item.name for item in fields(chosen)}:
            raise InputError(
                f"{name} is a field of {' and '.join(having)}, not of {chosen.name}; leave it out, or choose another "
                "model."
            )


def options_of(estimator: Any, kind: type) -> Any:
    """The options of a kind that the parameters of its fields' names hold."""
    return kind(**{item.name: getattr(estimator, item.name) for item in fields(kind)})


class Transformer(TransformerMixin, BaseEstimator):
    """What gives a vector for each of X."""

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """As `fit` and `transform` of the same X, float32 (len(X), dim). Of an iterator X a list is made."""
        X = list(X) if isinstance(X, Iterator) else X
        return self.fit(X, y).transform(X)


class Embedder(Transformer):
    """What embedders share: building the config, fitting, looking rows up."""

    _models: dict[str, type]
    _options: type
    _reads: str
    embeddings_: Embeddings
    summary_: dict[str, Any]

    def fit(self, X: Any, y: Any = None) -> Any:
        """Train on `X`; `y` is ignored. Sets `embeddings_`, `summary_` and `n_features_out_`; returns self."""
        values = self.get_params(deep=False)
        options = options_of(self, self._options)
        run = {name: values[name] for name in _RUN}
        data = X if values.get("graph") is None else values["graph"]
        result = any2vec.fit(config_of(self), data, **run, **{self._reads: options})
        self.embeddings_, self.summary_ = result.embeddings, result.summary
        if result.scorer is not None:
            self.scorer_ = result.scorer
        self.n_features_out_ = self.embeddings_.dim
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of `transform`: object (dim,), like `wordembedder0`; input_features are ignored."""
        prefix = type(self).__name__.lower()
        return np.asarray([f"{prefix}{column}" for column in range(self._fitted().dim)], dtype=object)

    def _fitted(self) -> Embeddings:
        if not hasattr(self, "embeddings_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")
        return self.embeddings_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embeddings_")


def vectors_of(embeddings: Embeddings, X: Iterable[Any]) -> np.ndarray:
    """float32 (len(X), dim) of keys: a list, an array, a column; zeros for those that were not seen.

    Whole floats, as pandas makes of integers beside gaps, are integers; tuples go by their text, as in training.

    Raises:
        InputError: one can be no key.
    """
    given = column_of(X)
    rows = embeddings.rows(given if text_of(given) is not None else [_key_of(key) for key in listed(given)])
    vectors = np.asarray(embeddings.vectors[rows], dtype=np.float32)
    vectors[rows < 0] = 0
    return vectors


def _key_of(key: Any) -> Any:
    if text_of(key) is not None:
        return key
    if isinstance(key, tuple | list):
        return str(tuple(key))
    if isinstance(key, float) and key.is_integer():
        return int(key)
    raise InputError(f"an id is a string, a whole number or a tuple, got {key!r:.80}; fill or drop it.")
