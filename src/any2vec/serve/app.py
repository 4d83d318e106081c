"""The HTTP application: paths of operations and runs, by FastAPI, behind a guard of tokens, sizes and time.

Every refusal is JSON, {"error": one sentence}: 401 no token, 403 another host's name, 404 no such path, run, key or
operation, 405 method, 408 a request that comes too slowly, 413 and 431 too large, 422 a body that the path does not
take, 400 what is asked cannot be answered, 503 not in time. Where connections are too many, uvicorn refuses one before
this application sees it: 503, in plain text.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from any2vec._version import __version__
from any2vec.errors import Any2VecError, UnknownKeyError
from any2vec.machine import OWN_NAMES
from any2vec.serve.catalog import Catalog, ServedRun
from any2vec.serve.limits import Deadline, Limits, TooLateError
from any2vec.serve.operations import OPERATIONS, Operation, Refusal, answer, operations_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_OPEN = ("/health",)
"""paths that need no token: they say nothing of the runs"""
_HEAD_BYTES = 16_384
"""of all headers of a request"""
_BODY = 5.0
"""seconds that the body of a request may take to come, where the limit is longer"""
_log = logging.getLogger("any2vec.serve")


def make_app(catalog: Catalog, limits: Limits, token: str | None = None, host: str = "127.0.0.1") -> Guard:
    """The ASGI application.

    Args:
        token: that requests must bear; None: they must call the server by its own name, so that no page of another site
            can have a browser ask.
        host: a further name of the server.
    """
    app = FastAPI(title="any2vec", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    for operation in OPERATIONS:
        _add(app, operation, catalog, limits)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Whether the server answers, and how many runs it has."""
        return {"status": "ok", "runs": len(catalog.runs())}

    @app.get("/runs")
    async def runs() -> list[dict[str, Any]]:
        """The runs, and what each can be asked."""
        return [_about(run) for run in catalog.runs()]

    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(HTTPException, _no_path)
    app.add_exception_handler(Any2VecError, _refused)
    app.add_exception_handler(Exception, _broken)
    return Guard(app, limits, token, OWN_NAMES | {host, f"[{host}]"})


def _about(run: ServedRun) -> dict[str, Any]:
    return {
        "name": run.name, "task": run.task, "rows": len(run.embeddings), "dim": run.embeddings.dim,
        "is_approximate": run.is_approximate, "operations": operations_of(run),
    }  # fmt: skip


def _add(app: FastAPI, operation: Operation, catalog: Catalog, limits: Limits) -> None:
    def endpoint(name: str, asked: Any, request: Request) -> JSONResponse:
        run = catalog[name]
        return JSONResponse(answer(operation, run, asked, limits, request.scope["deadline"]))

    endpoint.__annotations__ |= {"name": str, "asked": operation.request, "request": Request, "return": JSONResponse}
    endpoint.__name__, endpoint.__doc__ = operation.name, operation.request.__doc__
    app.add_api_route(
        f"/runs/{{name}}/{operation.name}", endpoint, methods=["POST"], response_model=operation.answer,
        responses={"4XX": {"model": Refusal, "description": "Refused"}},
    )  # fmt: skip


def refusal(status: int, sentence: str) -> JSONResponse:
    """An answer that is none."""
    headers = (
        {"WWW-Authenticate": "Bearer"}
        if status == 401
        else {"Connection": "close"}
        if status in (408, 413, 431)
        else {}
    )
    return JSONResponse({"error": sentence.encode("utf-8", "backslashreplace").decode()}, status, headers)


async def _unfit(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return refusal(422, "The body is not JSON.")
    place = ".".join(str(part) for part in first["loc"][1:])
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not place and not (kind.startswith("application/") and kind.endswith("json")):
        return refusal(422, "Send the body as JSON, with the header Content-Type: application/json.")
    said = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return refusal(422, f"{place or 'The body'}: {said}; see /openapi.json."[:500])


async def _no_path(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    path, method = request.scope["path"][:80], request.scope["method"][:20]
    said = {404: f"There is no {path!r}", 405: f"{path!r} is not for {method}"}.get(
        error.status_code, "The request cannot be read"
    )
    return refusal(error.status_code, f"{said}; see /openapi.json.")


async def _refused(request: Request, error: Exception) -> JSONResponse:
    status = 404 if isinstance(error, UnknownKeyError) else 503 if isinstance(error, TooLateError) else 400
    return refusal(status, str(error))


async def _broken(request: Request, error: Exception) -> JSONResponse:
    return refusal(500, "The server met an error of its own; its log has more.")


class Guard:
    """ASGI: the token, the size and the time of a request, before the application sees it."""

    def __init__(self, app: FastAPI, limits: Limits, token: str | None, names: frozenset[str]) -> None:
        self.app, self._limits, self._names = app, limits, names
        self._digest = None if token is None else _digest(token.encode())

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        scope["deadline"] = Deadline.after(self._limits.max_seconds)
        try:
            body = self._unwelcome(scope) or await self._body(scope, receive)
            if isinstance(body, JSONResponse):
                await body(scope, receive, send)
            elif body is not None:
                await self.app(scope, _replayed(body, receive), send)
        except Exception:
            _log.exception("a request could not be answered")

    def _unwelcome(self, scope: Message) -> JSONResponse | None:
        """The refusal of a request by its head."""
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _HEAD_BYTES:
            return refusal(431, f"The head of a request has {_HEAD_BYTES:,} bytes at most.")
        headers = {name: value for name, value in scope["headers"] if name in (b"host", b"authorization")}
        if self._digest is None:
            host = headers.get(b"host", b"").decode("latin-1")
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name.lower() not in self._names:
                return refusal(403, "The server answers at the address that it was started with.")
        elif scope["path"] not in _OPEN:
            kind, _, token = headers.get(b"authorization", b"").partition(b" ")
            if not hmac.compare_digest(_digest(token.strip()), self._digest) or kind.lower() != b"bearer":
                return refusal(401, "The server needs its token: Authorization: Bearer TOKEN.")
        return None

    async def _body(self, scope: Message, receive: Receive) -> bytes | JSONResponse | None:
        """What comes, checked; None: nobody waits any more."""
        most = self._limits.max_request_bytes
        too_large = f"A request has {most:,} bytes at most; ask in parts."
        sizes = [value for name, value in scope["headers"] if name == b"content-length"]
        if sizes and int(sizes[0]) > most:
            return refusal(413, too_large)
        body = bytearray()
        seconds = min(_BODY, self._limits.max_seconds)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > most:
                        return refusal(413, too_large)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            return refusal(408, f"The request did not come within {seconds:g} s.")
        return bytes(body)


def _digest(token: bytes) -> bytes:
    """Of one length, so that comparing takes the same time for all."""
    return hashlib.sha256(token).digest()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` of a request whose body has come."""
    is_first = True

    async def once() -> Message:
        nonlocal is_first
        if is_first:
            is_first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return once
