"""A single run that is kept in a file of its own, so that a row can be begun, stopped and gone on with."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.source_code import Code, changed_since


@dataclass(frozen=True)
class KeptRun:
    """What a file holds."""

    request: Any
    """all that it was asked, JSON"""
    commit: str
    """at which it ran"""
    processor: str
    code: Code
    """that ran"""
    run: dict[str, Any]
    """its numbers"""
    confirmed: str | None = None
    """commit at which it was begun again, and went as before"""

    @classmethod
    def made_now(cls, request: Any, run: dict[str, Any], code: Code) -> KeptRun:
        return cls(request, results.commit(), results.machine()["cpu"], code, run)

    @classmethod
    def read(cls, path: Path) -> KeptRun | None:
        """None where there is none, or it has not what a kept run has by now: it is made again."""
        found = json.loads(path.read_text()) if path.exists() else {}
        is_whole = found.keys() | {"confirmed"} == {item.name for item in fields(cls)}
        return cls(**found) if is_whole else None

    def write(self, path: Path) -> None:
        """Without folders and hosts: it is to be committed."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        path.write_text(json.dumps(results.anonymous(known)))

    def again(self, code: Code) -> KeptRun:
        """As it is where, begun again by this code, it went as before."""
        return replace(self, code=code, confirmed=results.commit())

    @property
    def is_old(self) -> bool:
        """Whether something that it ran does something else by now, or nobody knows what it ran."""
        return not self.code or bool(changed_since(self.code))


def path_of(folder: Path, name: str, request: Any) -> Path:
    """Where it is kept: by a hash of what it was asked. name: of the kind of run."""
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:16]
    return folder / f"{name}-{digest}.json"
