"""Run every experiment, one after the other: ``python -m fenchel.experiments [--data DIR] [--quick] [--json FILE]``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .._core import registry
from .report import as_text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fenchel.experiments", description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("FENCHEL_DATA"), help="the folder of data sets")
    parser.add_argument("--quick", action="store_true", help="fewer splits")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    options = parser.parse_args()
    results = {}
    for entry in registry.entries("experiment"):
        print(f"== {entry.name}: {entry.summary}", flush=True)
        result = entry.load()(None if options.data is None else Path(options.data), options.quick, None)
        print(as_text(result), flush=True)
        results[entry.name] = result
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
