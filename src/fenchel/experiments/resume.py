"""Results of long experiments, kept as they come, so that an interrupted run goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._core.errors import InvalidInput

__all__ = ["Kept", "fingerprint"]


class Kept:
    """Results of an experiment in a file of JSON lines, each found by a hash of the settings and of what it is about.

    The file is ``build/experiments/NAME.jsonl``, or in the folder that the variable FENCHEL_EXPERIMENTS names. A
    change of settings or of data is another hash, so old lines are never taken for new ones; after a change of the
    *code* the file must be deleted. A line that an interruption cut off is ignored.
    """

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        folder = Path(os.environ.get("FENCHEL_EXPERIMENTS") or Path("build") / "experiments")
        self.path = folder / f"{name}.jsonl"
        self.reused = 0
        self._settings = settings
        self._values: dict[str, Any] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
            self._stream = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(
                f"results cannot be kept in {str(folder)!r} ({error.strerror}); "
                "name another folder by the variable FENCHEL_EXPERIMENTS"
            ) from None
        if text and not text.endswith("\n"):
            self._stream.write("\n")
        for line in text.splitlines():
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
        self._stream.write(json.dumps({"hash": key, "what": what, "value": value}) + "\n")
        self._stream.flush()

    def close(self) -> None:
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
            f"{self.reused} results were read from {self.path}; delete it to compute them anew." if self.reused else ""
        )


def fingerprint(*arrays: Any) -> str:
    """A hash of the contents of arrays, dense or sparse."""
    digest = hashlib.sha256()
    for array in arrays:
        parts = (array.data, array.indices, array.indptr) if sp.issparse(array) else (np.asarray(array),)
        for part in parts:
            digest.update(f"{part.shape}{part.dtype}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:16]
