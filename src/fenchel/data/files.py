"""Files of text, compressed or not, line by line; what is wrong with one is said with its name and line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .._core.errors import InvalidInput

__all__ = ["ending", "text_lines"]

_FOREIGN = {
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "compressed by gzip",
    b"PK\x03\x04": "a zip archive or an Excel file",
}


def ending(path: Path) -> str:
    """The ending of a name in small letters, without ``.gz``.

    >>> ending(Path("A.CSV.gz")), ending(Path("a"))
    ('.csv', '')
    """
    return Path(path.name.lower().removesuffix(".gz")).suffix


@contextmanager
def text_lines(path: Path, expected: str) -> Iterator[Iterator[str]]:
    """The lines of a file that should hold what is ``expected``, in UTF-8."""
    try:
        with _open(path, expected) as stream:
            yield _decoded(stream, path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path}: the gzip archive is damaged ({error})") from None


def _open(path: Path, expected: str) -> IO[bytes]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    stream = path.open("rb")
    start = stream.read(4)
    stream.seek(0)
    for magic, kind in _FOREIGN.items():
        if start.startswith(magic):
            stream.close()
            raise InvalidInput(f"{path} is {kind}, whatever its name says; expected {expected}")
    return stream


def _decoded(stream: IO[bytes], path: Path) -> Iterator[str]:
    for number, raw in enumerate(stream, 1):
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            raise InvalidInput(
                f"{path}, line {number}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
            ) from None
