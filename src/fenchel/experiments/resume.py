"""Results of long experiments, kept as they come, so that an interrupted run goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from .._core.errors import InvalidInput

__all__ = ["Kept", "fingerprint", "keeping"]

_HEADER = "intermediate results of fenchel reproduce"
_file: ContextVar[Path | None] = ContextVar("file of intermediate results", default=None)


@contextmanager
def keeping(path: Path | None) -> Iterator[None]:
    """Let the experiments that run inside keep their results in this file; with None they keep them in memory only."""
    if path is not None:
        _checked(path)
    token = _file.set(path)
    try:
        yield
    finally:
        _file.reset(token)


class Kept:
    """Results of an experiment, each found by a hash of the settings and of what it is about.

    Inside :func:`keeping` they are lines of JSON in the file it names. A change of the version, of settings or of data is
    another hash, so old lines are never taken for new ones; a change of the *code* is not seen: raise ``protocol`` in the
    settings. A line that an interruption cut off is ignored.
    """

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        from .. import __version__

        self.path = _file.get()
        self.reused = 0
        self._settings = [name, __version__, settings]
        self._values: dict[str, Any] = {}
        self._stream: IO[str] | None = None
        if self.path is None:
            return
        text = _checked(self.path)
        self._stream = self.path.open("a", encoding="utf-8")
        if not text:
            self._write({"header": _HEADER, "version": __version__})
        elif not text.endswith("\n"):
            self._stream.write("\n")
        for line in text.splitlines()[1:]:
            try:
                entry = json.loads(line)
                self._values[entry["hash"]] = entry["value"]
            except (ValueError, TypeError, KeyError):
                continue

    def get(self, what: dict[str, Any]) -> Any:
        """The value kept for this, or None."""
        value = self._values.get(self._hash(what))
        self.reused += value is not None
        return value

    def put(self, what: dict[str, Any], value: Any) -> None:
        """Keep a value, on disk at once."""
        key = self._hash(what)
        self._values[key] = value
        if self._stream is not None:
            self._write({"hash": key, "what": what, "value": value})

    def _write(self, entry: dict[str, Any]) -> None:
        assert self._stream is not None
        self._stream.write(json.dumps(entry) + "\n")
        self._stream.flush()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _hash(self, what: dict[str, Any]) -> str:
        return hashlib.sha256(json.dumps([self._settings, what], sort_keys=True).encode()).hexdigest()[:24]

    @property
    def note(self) -> str:
        return (
            f"{self.reused} results were taken from {self.path}, where an earlier run left them." if self.reused else ""
        )


def _checked(path: Path) -> str:
    """What is in the file; a file that we did not begin is refused, for it is the user's."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text:
            header = json.loads(text.partition("\n")[0])
            if not isinstance(header, dict) or header.get("header") != _HEADER:
                raise ValueError
        elif not path.exists():
            path.touch()
    except OSError as error:
        raise InvalidInput(f"intermediate results cannot be kept in {str(path)!r}: {error.strerror}") from None
    except ValueError:
        raise InvalidInput(
            f"{str(path)!r} holds something else than {_HEADER}; move it, or name another file by --resume"
        ) from None
    return text


def fingerprint(*arrays: Any) -> str:
    """A hash of the contents of arrays, dense or sparse."""
    digest = hashlib.sha256()
    for array in arrays:
        parts = (array.data, array.indices, array.indptr) if sp.issparse(array) else (np.asarray(array),)
        for part in parts:
            digest.update(f"{part.shape}{part.dtype}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:16]
