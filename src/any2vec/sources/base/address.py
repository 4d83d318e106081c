"""Addresses of sources: what they look like, and what is wrong with one that is none."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from any2vec.errors import InputError

CRAWL = "crawl:"
"""what stands before the URL at which a crawl begins"""
SCHEMES = ("tcp", "unix", "http", "https", "kafka", "redis", "rediss")
_ALLOWED = (
    "a path, - (standard input), tcp://HOST:PORT, unix:///PATH, http(s)://HOST/PATH, crawl:http(s)://HOST/PATH, "
    "kafka://HOST:PORT/TOPIC or redis://HOST:PORT/KEY"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_OPTIONS = {"tcp": {"resume"}, "unix": {"resume"}, "redis": {"db"}, "rediss": {"db"}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A source's address, taken apart."""

    kind: str
    """file, stdin, crawl, or a scheme of SCHEMES"""
    text: str
    """as it was given"""
    name: str
    """the same without passwords and other secrets"""
    host: str = ""
    port: int = 0
    path: str = ""
    """of a file or socket; a topic or key; of a crawl, what stands behind `crawl:`"""
    user: str | None = None
    password: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    """what stands behind `?`, where a scheme knows it"""


def parse_address(text: str) -> Address:
    """Take an address apart; whether anything is there, or a library for it, is not looked at.

    Raises:
        InputError: it is none.
    """
    if is_crawl(text):
        name = without_secrets(text.partition("#")[0])
        return Address(kind="crawl", text=text, name=name, path=text.removeprefix(CRAWL))
    if text == "-":
        return Address(kind="stdin", text=text, name="-")
    found = _SCHEME.match(text)
    if found is None:
        if not text.strip() or "\0" in text:
            raise InputError(f"A source is {_ALLOWED}, got {text!r}.")
        return Address(kind="file", text=text, name=text, path=text)
    kind = found[1].lower()
    if kind == "file":
        return parse_address(text[len("file://") :])
    if kind not in SCHEMES:
        raise InputError(f"The scheme of a source is one of {', '.join(SCHEMES)}, got {found[1]!r}; give {_ALLOWED}.")
    address, shown = _parse_server(text, kind), _shown(text, kind)
    if kind == "unix":
        if not address.path.startswith("/") or address.host:
            raise InputError(f"A Unix socket is unix:///PATH with three slashes, got {shown}.")
        return address
    if not address.host:
        raise InputError(f"{shown} names no host; give {_form(kind)}.")
    if kind == "tcp" and (not address.port or address.path):
        raise InputError(f"A TCP source is tcp://HOST:PORT and no path, got {shown}.")
    if kind in ("kafka", "redis", "rediss") and not address.path:
        raise InputError(f"{shown} does not say what to read; give {_form(kind)}.")
    return address


def without_secrets(text: str) -> str:
    """An address with `***` for a password, for a user alone (a token), and for the values of such options of a query
    as `api_key`."""

    def masked(found: re.Match[str]) -> str:
        user, colon, _ = found[1].partition(":")
        return f"//{user}:***@" if colon else "//***@"

    secret = r"(?i)([?&][^=&]*(?:key|token|secret|passw|pwd|auth|sig)[^=&]*=)[^&#]*"
    return re.sub(secret, r"\1***", re.sub(r"//([^/?#]*)@", masked, text, count=1))  # up to the last @, as urlsplit


def _shown(text: str, kind: str) -> str:
    """An address in a refusal. Not where an @ stands behind the host: a password may hold what ends that."""
    name = without_secrets(text)
    return f"What begins with {kind}://" if "@" in re.split("[/?#]", name + "///", maxsplit=3)[3] else repr(name)


def is_crawl(address: object) -> bool:
    """Whether it is the address of a crawl."""
    return isinstance(address, str) and address.startswith(CRAWL)


def _form(kind: str) -> str:
    what = {"tcp": "HOST:PORT", "kafka": "HOST:PORT[,HOST:PORT]/TOPIC", "redis": "HOST:PORT/KEY"}
    return f"{kind}://{what.get(kind.replace('rediss', 'redis'), 'HOST[:PORT]/PATH')}"


def _parse_server(text: str, kind: str) -> Address:
    is_http = kind in ("http", "https")
    hosts, name, shown = "", without_secrets(text), _shown(text, kind)
    try:
        parts = urlsplit(text)
        if kind == "kafka" and "," in parts.netloc:  # several brokers: each HOST:PORT
            hosts = parts.netloc.rpartition("@")[2]
            parts = parts._replace(netloc=parts.netloc.partition(",")[0])
        port = parts.port or 0
        host = parts.hostname or ""
    except ValueError as error:
        why = "" if "@" in text else f" ({error})"
        escape = "; in a password, write / as %2F, ? as %3F and # as %23" if "@" in text else ""
        raise InputError(
            f"{shown} is no address{why}; give {_form(kind)}{escape}."
        ) from None  # it may quote a password
    if "#" in text and not is_http:
        raise InputError(f"{shown} holds a #, and {kind}:// addresses have no fragment; write it as %23.")
    if re.search(r"[\x00-\x20\x7f]", text):
        raise InputError(f"{shown} holds a space or a control character; write it as %20 and so on.")
    options = {} if is_http else dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = set(options) - _OPTIONS.get(kind, set())
    if unknown:
        known = ", ".join(sorted(_OPTIONS.get(kind, set()))) or "none"
        got = "others" if "@" in text.partition("?")[2] else repr(min(unknown))
        raise InputError(f"{kind}:// sources know these options behind ?: {known}; got {got} in {shown}.")
    path = parts.path if is_http else unquote(parts.path) if kind == "unix" else unquote(parts.path.strip("/"))
    return Address(
        kind=kind, text=text, name=name, host=hosts or host, port=port, path=path,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password), options=options,
    )  # fmt: skip
