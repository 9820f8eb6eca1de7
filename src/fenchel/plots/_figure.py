"""How all pictures get their axes."""

from __future__ import annotations

from typing import Any

from .._core.errors import MissingDependency

__all__ = ["INK", "axes_or_new", "figure"]

# One accent and quiet greys, readable in print and for colour-blind eyes.
INK = {"first": "#2b5f8a", "second": "#c8732b", "third": "#6a8f3c", "fourth": "#8a5a83", "grey": "#9a9a9a"}


def figure(**options: Any) -> Any:
    """A new figure that belongs to no window, so that drawing works without a screen and leaks nothing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("pictures need matplotlib: pip install 'fenchel[plots]'") from None
    return Figure(layout="constrained", **options)


def axes_or_new(ax: Any, **options: Any) -> Any:
    return ax if ax is not None else figure(**options).add_subplot()
