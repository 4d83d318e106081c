"""A decorator that runs a test on logical hosts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import pytest

from any2vec.cluster.threads import run_logical


def hosts(numbers: Sequence[int]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test as each host of so many, each a thread with a `transport`: `@hosts([1, 2, 4])`.

    The test has an argument `transport`, and others as any test. What one host raises fails the test, and ends the
    others.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        if "transport" not in signature.parameters:
            raise TypeError(f"{test.__qualname__} needs an argument transport, the end of one host")

        @wraps(test)
        def run(*args: Any, num_hosts: int, **values: Any) -> None:
            run_logical(num_hosts, lambda transport: test(*args, transport=transport, **values))

        own = [item for name, item in signature.parameters.items() if name != "transport"]
        number = inspect.Parameter("num_hosts", inspect.Parameter.KEYWORD_ONLY)
        run.__signature__ = signature.replace(parameters=[*own, number])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("num_hosts", numbers)(run)

    return decorate
