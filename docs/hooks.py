"""mkdocs hook: tables of the registry, written where a page says ``<!-- registry:KIND -->``."""

from __future__ import annotations

import re
from typing import Any

from fenchel._core import registry


def on_page_markdown(markdown: str, **_: Any) -> str:
    return re.sub(r"<!-- registry:(\w+) -->", lambda match: table(match[1]), markdown)


def table(kind: str) -> str:
    rows = [f"| `{e.class_name}` | `{e.name}` | {e.summary} |" for e in registry.entries(kind)]
    return "\n".join(["| class | name | what it is |", "| --- | --- | --- |", *rows])
