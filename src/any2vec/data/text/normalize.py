"""Byte blocks of one text become pieces ready for the kernel: cut at white space, checked, repaired, folded.

Every piece ends behind ASCII white space (or, in text that has none, behind Unicode white space), where UTF-8 decoding,
lower-casing and splitting are sure to know nothing of what follows: so the words do not depend on the block size.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from any2vec.data.options import TextOptions
from any2vec.data.text import encoder
from any2vec.data.vocab.vocabulary import MAX_WORD_BYTES
from any2vec.errors import DataError

_UNICODE_SPACES = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_SPACES = [bytes([byte]) for byte in b"\t\x0b\x0c\r\x1c\x1d\x1e\x1f"] + [space.encode() for space in _UNICODE_SPACES]
_BOMS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def check_bad_bytes(name: str, bad_bytes: int, num_bytes: int) -> None:
    """DataError when most of the bytes of a text are not UTF-8."""
    if 2 * bad_bytes > num_bytes:
        raise DataError(
            f"{name} looks like a binary file or text in another encoding: {bad_bytes} of its {num_bytes} bytes are "
            "not UTF-8; convert it to UTF-8 first."
        )


class Normalizer:
    """Turns the blocks of one text into pieces; counts bytes and bad bytes."""

    def __init__(self, name: str, options: TextOptions, is_part: bool = False) -> None:
        """is_part: more of the text is read elsewhere, so whether it is text at all is judged there."""
        self.name = name
        self.is_part = is_part
        self.options = options
        self.num_bytes = 0
        """bytes handed on so far, the byte order mark included"""
        self.bad_bytes = 0
        """bytes that belong to no valid UTF-8 sequence"""
        self._lines = 0
        self._findall = options.compiled().findall if options.token_pattern is not None else None

    def pieces(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield pieces that each end with white space; a line end follows the last one.

        Raises:
            DataError: NUL bytes, mostly invalid bytes, another encoding, a word over the limit, or bad bytes with
                bad_bytes="error".
        """
        carry = b""
        for block in self._without_bom(blocks):
            nul = block.find(b"\0")
            if nul >= 0:
                offset = self.num_bytes + len(carry) + nul
                raise DataError(
                    f"{self.name} has a NUL byte at offset {offset}: it looks like a binary file, not text."
                )
            carry = carry + block if carry else block
            cut = self._cut(carry)
            if cut:
                yield self.normalize(carry[:cut])
                carry = carry[cut:]
        yield self.normalize(carry) + b"\n"
        if not self.is_part:
            check_bad_bytes(self.name, self.bad_bytes, self.num_bytes)

    def _cut(self, data: bytes) -> int:
        """Where the last whole word (with a pattern: line) of `data` ends, or 0 to wait for more."""
        cut = data.rfind(b"\n") + 1
        is_long = len(data) > MAX_WORD_BYTES
        if self._findall is not None and (cut or not is_long):
            return cut
        cut = max(cut, data.rfind(b" ") + 1)
        if not cut and is_long:
            cut = max(at + len(space) if (at := data.rfind(space)) >= 0 else 0 for space in _SPACES)
            if not cut:
                raise encoder.too_long(self.name)
        return cut

    def normalize(self, piece: bytes) -> bytes:
        """One piece that ends where a word does (with a pattern: a line), without the checks of `pieces`."""
        lowercase, findall = self.options.lowercase, self._findall
        start, first_line = self.num_bytes, self._lines
        self.num_bytes += len(piece)
        if self.options.bad_bytes == "error":
            self._lines += piece.count(b"\n")
        if piece.isascii():
            if lowercase:
                piece = piece.lower()
            if findall is None:
                return piece
            text = piece.decode("ascii")
        else:
            text, is_changed = self._decode(piece, start, first_line)
            if lowercase:
                text, is_changed = text.lower(), True
            if findall is None:
                return text.encode() if is_changed else piece
        lines = text.replace("\r\n", "\n").split("\n")
        return "\n".join(map(" ".join, map(findall, lines))).encode() + b" "

    def _decode(self, piece: bytes, start: int, first_line: int) -> tuple[str, bool]:
        try:
            return piece.decode(), False
        except UnicodeDecodeError as error:
            if self.options.bad_bytes == "error":
                line = first_line + piece.count(b"\n", 0, error.start) + 1
                raise DataError(
                    f"{self.name}, line {line}: the byte at offset {start + error.start} is not UTF-8, {error.reason}; "
                    "convert the file to UTF-8 or choose bad_bytes replace or skip."
                ) from error
        kept = piece.decode(errors="ignore")
        self.bad_bytes += len(piece) - len(kept.encode())
        return (kept if self.options.bad_bytes == "skip" else piece.decode(errors="replace")), True

    def _without_bom(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Drop a UTF-8 byte order mark; refuse those of other encodings."""
        head: bytes | None = b""
        for block in blocks:
            if head is None:
                yield block
                continue
            head += block
            if len(head) >= 4:
                yield self._check_bom(head)
                head = None
        if head:
            yield self._check_bom(head)

    def _check_bom(self, head: bytes) -> bytes:
        for bom, encoding in _BOMS.items():
            if head.startswith(bom):
                raise DataError(f"{self.name} is {encoding} text (by its byte order mark); convert it to UTF-8 first.")
        if head.startswith(codecs.BOM_UTF8):
            self.num_bytes = len(codecs.BOM_UTF8)
        return head.removeprefix(codecs.BOM_UTF8)
