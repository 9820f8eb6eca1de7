"""Draw the pictures of the page on pictures: python docs/pictures.py.

Each link ``![...](pictures/NAME.png)`` of plots.md shows what the code block before it leaves in ``ax``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def main() -> None:
    text = (FOLDER / "plots.md").read_text()
    (FOLDER / "pictures").mkdir(exist_ok=True)
    names: dict[str, Any] = {}
    for code, name in re.findall(r"^```python\n(.*?)^```\n\n!\[[^]]*\]\((pictures/[\w-]+\.png)\)", text, re.M | re.S):
        exec(compile(code, name, "exec"), names)
        names["ax"].figure.savefig(FOLDER / name, dpi=80)


if __name__ == "__main__":
    main()
