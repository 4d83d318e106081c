"""What is known of a public set and of one file of it."""

from __future__ import annotations

from dataclasses import dataclass

_GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file with its exact address and content."""

    name: str
    address: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One public set. `files` holds those that may be fetched and checked; `where` says how to get the rest."""

    name: str
    family: str
    what: str
    licence: str
    cite: str = ""
    where: str = ""
    files: tuple[SourceFile, ...] = ()

    @property
    def is_downloadable(self) -> bool:
        return bool(self.files)

    @property
    def num_bytes(self) -> int:
        """Size of the files that can be fetched."""
        return sum(file.num_bytes for file in self.files)


def github(repository: str, commit: str, path: str, num_bytes: int, sha256: str) -> SourceFile:
    """A file of a GitHub repository ("owner/name") at a commit, under its own name."""
    address = f"{_GITHUB}/{repository}/{commit}/{path}"
    return SourceFile(name=path.rpartition("/")[2], address=address, num_bytes=num_bytes, sha256=sha256)
