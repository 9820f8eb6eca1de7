"""A progress bar on standard error."""

from __future__ import annotations

import os
import shutil
import sys
from time import monotonic
from types import TracebackType
from typing import TextIO

__all__ = ["Progress"]

_BAR = 24
_EVERY = 0.1


class Progress:
    """A bar with the time that is left; silent where nobody watches (no terminal, or ``quiet``).

    As a function it is what long routines take for their ``progress`` argument: ``progress(share done, what)``.
    """

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.active = not quiet and self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False
        self._restart()

    def _restart(self) -> None:
        self._since = monotonic()
        self._last_drawn = -_EVERY

    def __call__(self, share: float, what: str = "") -> None:
        """Show that this share of the work, between 0 and 1, is done."""
        now = monotonic()
        if share <= 0:
            self._restart()
        if not self.active or (now - self._last_drawn < _EVERY and share < 1):
            return
        self._last_drawn = now
        share = min(max(share, 0.0), 1.0)
        full = round(_BAR * share)
        left = (now - self._since) * (1 - share) / share if share > 0 else None
        line = f"[{'#' * full}{'.' * (_BAR - full)}] {100 * share:3.0f} % {_clock(left)}  {what}"
        width = shutil.get_terminal_size().columns - 1
        self.stream.write("\r\x1b[K" + line[:width])
        self.stream.flush()
        self._shown = True

    def clear(self) -> None:
        """Wipe the bar, so that something else can be written where it is."""
        if self._shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "  --:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:4d}:{rest:02d}"
