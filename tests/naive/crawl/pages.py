"""The plain twin of a crawl: breadth first, one page after the other, with nothing but the standard library."""

from __future__ import annotations

import gzip
import re
from collections import deque
from collections.abc import Callable
from http.client import HTTPException
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.request import urlopen


def crawl(start: str, sites: list[str], allows: Callable[[str], bool], most: int, tries: int = 3) -> dict[str, str]:
    """URL -> HTML of each page of these sites that links lead to: allowed, and of `most` bytes or fewer."""
    found: dict[str, str] = {}
    queue, known = deque([start]), {start}
    while queue:
        url = queue.popleft()
        for _ in range(tries):
            try:
                with urlopen(url, timeout=10) as answer:
                    kind, where = answer.headers.get_content_type(), answer.url
                    body = answer.read()
                if answer.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                html = body.decode() if len(body) <= most else ""
                break
            except (HTTPException, OSError, ValueError):
                html = ""
        if not html or kind != "text/html" or 'content="noindex' in html:
            continue
        found[urldefrag(where)[0]] = html
        for link in re.findall(r'href="([^"]*)"', html):
            target = urldefrag(urljoin(where, link.replace("%2e", ".")))[0]
            if target not in known and urlsplit(target).netloc in sites and allows(target):
                known.add(target)
                queue.append(target)
    return found
