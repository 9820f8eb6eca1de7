"""How an experiment's result is printed."""

from __future__ import annotations

from typing import Any

__all__ = ["as_text"]


def as_text(result: dict[str, Any]) -> str:
    """The table of a result as aligned text, its notes below."""
    rows = [[str(cell) for cell in row] for row in [result["columns"], *result["rows"]]]
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = [result["title"], ""]
    for i, row in enumerate(rows):
        cells = [
            cell.ljust(w) if j == 0 else cell.rjust(w) for j, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if i == 0:
            lines.append("  ".join("-" * w for w in widths))
    return "\n".join([*lines, "", *result.get("notes", []), ""])
