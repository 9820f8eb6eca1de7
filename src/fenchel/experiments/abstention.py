"""The cost of answers where no answer costs one half: Table VI of the thesis, with the share of no answers.

Fathony, "Performance-aligned learning algorithms with statistical guarantees", 2019, section 2.8.3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .protocol import Comparison, Told, asked_kernels, compare, protocol_notes, table
from .zero_one import TRAIN_ROWS, classes

__all__ = ["run"]

_METHODS = {
    "AL abstain": {"estimator": "adversarial_classifier", "abstain": 0.5},
    "OVA": {"estimator": "margin_classifier", "loss": "one_vs_all", "abstain": 0.5},
    "CS": {"estimator": "margin_classifier", "loss": "crammer_singer", "abstain": 0.5},
}
_PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "linear": {
        "iris": (0.037, 0.122, 0.038), "glass": (0.380, 0.393, 0.379), "redwine": (0.418, 0.742, 0.423),
        "ecoli": (0.165, 0.222, 0.213), "vehicle": (0.214, 0.231, 0.216), "segment": (0.061, 0.082, 0.052),
        "sat": (0.147, 0.356, 0.337), "optdigits": (0.037, 0.045, 0.038), "pageblocks": (0.040, 0.042, 0.045),
        "libras": (0.260, 0.253, 0.253), "vertebral": (0.154, 0.147, 0.159), "breast_tissue": (0.315, 0.316, 0.326),
    },
    "Gaussian": {
        "iris": (0.051, 0.120, 0.043), "glass": (0.302, 0.393, 0.317), "redwine": (0.373, 0.742, 0.391),
        "ecoli": (0.160, 0.221, 0.144), "vehicle": (0.206, 0.226, 0.300), "segment": (0.042, 0.084, 0.102),
        "sat": (0.094, 0.356, 0.181), "optdigits": (0.062, 0.051, 0.072), "pageblocks": (0.037, 0.042, 0.060),
        "libras": (0.263, 0.362, 0.207), "vertebral": (0.181, 0.147, 0.220), "breast_tissue": (0.330, 0.313, 0.367),
    },
}  # fmt: skip


def run(
    data: Path | None = None,
    quick: bool = False,
    progress: Told | None = None,
    *,
    splits: int | None = None,
    sets: list[str] | None = None,
    kernels: list[str] | None = None,
    selection_rows: int | None = None,
) -> dict[str, Any]:
    """Mean cost, one half for no answer, for every set, kernel and method, beside the published means."""
    loaded = classes(data, quick, sets, "abstention")
    parts = {}
    for kernel in asked_kernels(kernels):
        comparison = Comparison("abstention", _METHODS, "abstain", kernel == "Gaussian")
        parts[kernel] = (
            comparison,
            compare(
                comparison,
                loaded,
                train_rows=TRAIN_ROWS,
                splits=splits,
                quick=quick,
                progress=progress,
                selection_rows=selection_rows,
            ),
        )
    rows, notes, wins = table(parts, _PUBLISHED if data is not None else {}, lambda cost: cost, 3, silent=True)
    return {
        "title": "Mean cost where no answer costs 0.5 [share of no answers]",
        "columns": ["data", "", *_METHODS],
        "rows": rows,
        "notes": [*protocol_notes(next(iter(parts.values()))[1], data is not None, quick), *notes],
        "values": {kernel: found["costs"] for kernel, (_, found) in parts.items()},
        "silent": {kernel: found["silent"] for kernel, (_, found) in parts.items()},
        "chosen": {kernel: found["chosen"] for kernel, (_, found) in parts.items()},
        "best_or_as_good": wins,
    }
