"""mkdocs hook: what the registry lists, as a table (``<!-- registry:KIND -->``) or as reference (``<!-- reference:KIND -->``)."""

from __future__ import annotations

import re
from typing import Any

from fenchel._core import registry


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = re.sub(r"<!-- registry:(\w+) -->", lambda match: table(match[1]), markdown)
    return re.sub(r"<!-- reference:(\w+) -->", lambda match: reference(match[1]), markdown)


def reference(kind: str) -> str:
    """The docstrings of all parts of a kind, in mkdocstrings' notation."""
    targets = dict.fromkeys(e.target for e in registry.entries(kind) if not e.target.startswith("fenchel.cli"))
    return "\n\n".join("::: " + target.replace(":", ".") for target in targets)


def table(kind: str) -> str:
    if kind == "experiment":  # a function each, which nobody calls by name
        rows = [f"| `{e.name}` | {e.summary} |" for e in registry.entries(kind)]
        return "\n".join(["| name | what it is |", "| --- | --- |", *rows])
    rows = [f"| `{e.class_name}` | `{e.name}` | {e.summary} |" for e in registry.entries(kind)]
    return "\n".join(["| class | name | what it is |", "| --- | --- | --- |", *rows])
