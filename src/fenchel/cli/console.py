"""What commands write: aligned tables, JSON, one-line messages, files that appear whole or not at all."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from .._core.errors import InvalidInput
from .progress import Progress

__all__ = ["Console", "check_target", "columns", "duration", "number", "size", "to_json", "writing"]


class Console:
    """Where a command's output goes: results to standard output, everything else to standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.progress = Progress(quiet=quiet)

    def print(self, text: str = "") -> None:
        """A line of the summary, which ``--quiet`` leaves out."""
        if not self.quiet:
            self.progress.clear()
            print(text)

    def result(self, text: str) -> None:
        """What was asked for: printed even when quiet."""
        self.progress.clear()
        print(text)

    def warn(self, text: str) -> None:
        self._say("warning", text)

    def error(self, text: str) -> None:
        self._say("error", text)

    def _say(self, kind: str, text: str) -> None:
        self.progress.clear()
        print(f"fenchel: {kind}: {' '.join(text.split())}", file=sys.stderr, flush=True)


def columns(rows: Sequence[Sequence[str]], *, header: bool = True, left: int = 1, indent: int = 2) -> str:
    """Rows of cells in aligned columns; the first ``left`` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for i, row in enumerate(rows):
        cells = [
            cell.ljust(w) if j < left else cell.rjust(w) for j, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((" " * indent + "  ".join(cells)).rstrip())
        if header and i == 0:
            lines.append(
                " " * indent
                + "  ".join(("-" if name else " ") * w for name, w in zip(row, widths, strict=True)).rstrip()
            )
    return "\n".join(lines)


def number(value: float | None, digits: int = 4) -> str:
    """A number to so many significant digits, a dash where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def duration(seconds: float) -> str:
    if seconds < 0.995:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def size(count: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}" if unit != "bytes" else f"{count} bytes"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.3g} GB"


def to_json(value: Any, *, indent: int | None = 1) -> str:
    """JSON text of plain values and arrays; what is not finite becomes null, as JSON has no word for it."""
    return json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # an array or a number of NumPy's
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def check_target(path: Path, *, overwrite: bool, inputs: Sequence[Path] = ()) -> Path:
    """Refuse a file that cannot be written, or is read by the same command, before the work that would fill it."""
    for given in inputs:
        if path.exists() and given.exists() and path.samefile(given):
            raise InvalidInput(f"{str(path)!r} is what is read; choose another name to write to")
    if path.is_dir():
        raise InvalidInput(f"{str(path)!r} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {str(path.parent)!r} to write {path.name!r} into")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInput(f"the folder {str(path.parent)!r} is not writable")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{str(path)!r} exists; choose another name or pass --overwrite")
    return path


@contextmanager
def writing(path: Path, *, overwrite: bool) -> Iterator[TextIO]:
    """A text file that takes its place when all is written."""
    check_target(path, overwrite=overwrite)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("x", encoding="utf-8", newline="") as stream:
            yield stream
        _place(temporary, path, os.replace if overwrite else os.link)
    finally:
        temporary.unlink(missing_ok=True)


def _place(temporary: Path, path: Path, how: Callable[[Path, Path], None]) -> None:
    try:
        how(temporary, path)
    except FileExistsError:  # somebody made the file meanwhile
        raise FileExistsError(f"{str(path)!r} exists; choose another name or pass --overwrite") from None
    except OSError:  # a file system without links
        os.replace(temporary, path)
