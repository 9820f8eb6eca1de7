"""Boxes of objects in the frames of a video: readers, features of pairs of boxes, and a generator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_count, check_generator
from .._core.errors import InvalidInput
from .._core.types import Array, IntArray

__all__ = ["BOX_FEATURES", "Boxes", "FramePair", "box_features", "frame_pairs", "moving_boxes", "read_boxes"]

BOX_FEATURES = ("overlap", "moved overlap", "distance", "moved distance", "size change", "aspect change")
"""What :func:`box_features` gives of a pair of boxes, in this order."""

_FAR = 3.0


@dataclass(frozen=True)
class Boxes:
    """Boxes in frames: ``box`` holds left, top, width and height; ``id`` says which object it is, −1 where nobody knows."""

    frame: IntArray
    id: IntArray
    box: Array
    confidence: Array

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def frames(self) -> IntArray:
        """The numbers of the frames that have boxes."""
        return np.unique(self.frame)

    def at(self, frame: int) -> IntArray:
        """Which boxes are in a frame."""
        return np.flatnonzero(self.frame == frame)


@dataclass(frozen=True)
class FramePair:
    """Two frames: features of all pairs of boxes, and which box of the second each box of the first is (−1: it left)."""

    features: Array
    partners: IntArray
    first: Array
    second: Array
    frames: tuple[int, int]


def read_boxes(path: str | os.PathLike[str]) -> Boxes:
    """Read a MOTChallenge file: lines ``frame,id,left,top,width,height,confidence,...``, or a header that names these.

    Files of detections may have −1 for the id, or with a header no such column.
    """
    rows: list[list[float]] = []
    names = ["frame", "id", "left", "top", "width", "height", "confidence"]
    with open(path, encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            cells = [cell.strip() for cell in line.strip().split(",")]
            if cells == [""]:
                continue
            if not rows and cells[0] == "frame":
                names = ["confidence" if cell == "conf" else cell for cell in cells]
                lacking = [name for name in ("frame", "left", "top", "width", "height") if name not in names]
                if lacking:
                    raise InvalidInput(f"{os.fspath(path)}, line {number}: there is no column {lacking[0]!r}")
                continue
            try:
                values = dict(zip(names, map(float, cells), strict=False))
                row = [values[name] for name in ("frame", "left", "top", "width", "height")]
            except (ValueError, KeyError):
                raise InvalidInput(
                    f"{os.fspath(path)}, line {number}: {line.strip()!r} is no box; expected {','.join(names)}"
                ) from None
            if not (np.isfinite(row).all() and row[3] > 0 and row[4] > 0):
                raise InvalidInput(f"{os.fspath(path)}, line {number}: a box needs a width and a height above 0")
            rows.append([*row, values.get("id", -1.0), values.get("confidence", 1.0)])
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 7)
    order = np.argsort(table[:, 0], kind="stable")
    table = table[order]
    return Boxes(table[:, 0].astype(np.int64), table[:, 5].astype(np.int64), table[:, 1:5].copy(), table[:, 6].copy())


def box_features(first: Array, second: Array, motion: Array | None = None) -> Array:
    """Features of all pairs of boxes of two frames, (n, m, 6), each about one or less; see :data:`BOX_FEATURES`.

    Overlap is intersection over union; distance that of the centres in units of the mean height, at most 3; changes are
    the sizes of logarithms, at most 3. "Moved" is where ``motion`` (x and y for each first box) carries the box.

    >>> import numpy as np
    >>> from fenchel.data import box_features
    >>> box_features(np.array([[0.0, 0.0, 10.0, 20.0]]), np.array([[5.0, 0.0, 10.0, 20.0]])).round(2)
    array([[[0.33, 0.33, 0.25, 0.25, 0.  , 0.  ]]])
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    moved = first.copy()
    if motion is not None:
        moved[:, :2] += motion
    size = np.log(first[:, 2] * first[:, 3])[:, None] - np.log(second[:, 2] * second[:, 3])
    aspect = np.log(first[:, 3] / first[:, 2])[:, None] - np.log(second[:, 3] / second[:, 2])
    return np.stack(
        [
            _overlap(first, second),
            _overlap(moved, second),
            _distance(first, second),
            _distance(moved, second),
            np.minimum(np.abs(size), _FAR),
            np.minimum(np.abs(aspect), _FAR),
        ],
        axis=-1,
    )


def _overlap(first: Array, second: Array) -> Array:
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, :2] + first[:, None, 2:], second[None, :, :2] + second[None, :, 2:])
    shared = np.maximum(high - low, 0).prod(axis=-1)
    total = first[:, 2:].prod(axis=1)[:, None] + second[:, 2:].prod(axis=1) - shared
    return np.asarray(shared / total)


def _distance(first: Array, second: Array) -> Array:
    centres = (first[:, None, :2] + first[:, None, 2:] / 2) - (second[None, :, :2] + second[None, :, 2:] / 2)
    height = (first[:, None, 3] + second[None, :, 3]) / 2
    return np.asarray(np.minimum(np.sqrt((centres**2).sum(axis=-1)) / height, _FAR))


def frame_pairs(boxes: Boxes, step: int = 1, *, truth: bool = True) -> list[FramePair]:
    """Each two frames that are ``step`` apart and both have boxes, with features and true partners by id.

    The motion of a box is ``step`` times how its object moved from the frame before, and nothing where it was not there.
    Steps above 1 make the task harder: objects move further, and more of them enter and leave. With ``truth=False``
    boxes need no ids; partners are then −1, and boxes without an id have no motion.

    >>> from fenchel.data import frame_pairs, moving_boxes
    >>> pairs = frame_pairs(moving_boxes(5, 3, random_state=0))
    >>> len(pairs), pairs[0].features.shape[2]
    (4, 6)
    """
    check_count(step, "step")
    if truth and len(boxes) and boxes.id.min() < 0:
        raise InvalidInput("some boxes have no id, so nobody knows which belong together; read a file of ground truth")
    groups = {int(frame): boxes.at(frame) for frame in boxes.frames}
    pairs = []
    for frame, rows in groups.items():
        after = groups.get(frame + step)
        if after is None:
            continue
        place = {int(i): j for j, i in enumerate(boxes.id[after])}
        if truth and len(place) < len(after):
            raise InvalidInput(f"frame {frame + step} has two boxes with the same id")
        partners = np.array([place.get(int(i), -1) if truth else -1 for i in boxes.id[rows]], dtype=np.int64)
        first, second = boxes.box[rows], boxes.box[after]
        features = box_features(first, second, step * _motion(boxes, groups.get(frame - 1), rows))
        pairs.append(FramePair(features, partners, first, second, (frame, frame + step)))
    return pairs


def _motion(boxes: Boxes, before: IntArray | None, rows: IntArray) -> Array:
    motion = np.zeros((len(rows), 2))
    known = {} if before is None else {int(i): r for i, r in zip(boxes.id[before], before, strict=True)}
    for j, row in enumerate(rows):
        old = known.get(int(boxes.id[row])) if boxes.id[row] >= 0 else None
        if old is not None:
            now, then = boxes.box[row], boxes.box[old]
            motion[j] = (now[:2] + now[2:] / 2) - (then[:2] + then[2:] / 2)
    return motion


def moving_boxes(
    n_frames: int,
    n_objects: int,
    *,
    noise: float = 0.1,
    turnover: float = 0.05,
    size: Sequence[float] = (640.0, 480.0),
    random_state: Any = None,
) -> Boxes:
    """Boxes that move, enter and leave: ``turnover`` is how often one leaves in a frame, and another one enters.

    ``noise`` shakes position and size of each box, in units of its own size, as a detector does.
    """
    check_count(n_frames, "n_frames")
    check_count(n_objects, "n_objects")
    rng = check_generator(random_state)
    width, height = size
    next_id = 0

    def born() -> dict[str, Any]:
        nonlocal next_id
        next_id += 1
        tall = rng.uniform(0.15, 0.35) * height
        return {
            "id": next_id, "shape": np.array([tall * rng.uniform(0.35, 0.5), tall]),
            "centre": rng.uniform([0, 0], [width, height]), "speed": rng.normal(size=2) * 0.06 * tall,
        }  # fmt: skip

    present = [born() for _ in range(n_objects)]
    rows = []
    for frame in range(1, n_frames + 1):
        for thing in present:
            shape = thing["shape"] * np.exp(noise * rng.normal(size=2))
            centre = thing["centre"] + noise * thing["shape"] * rng.normal(size=2)
            rows.append([frame, thing["id"], *(centre - shape / 2), *shape])
            thing["speed"] = 0.9 * thing["speed"] + 0.02 * thing["shape"][1] * rng.normal(size=2)
            ahead = thing["centre"] + thing["speed"]
            inside = np.clip(ahead, 0, [width, height])
            thing["speed"] = np.where(ahead == inside, 1, -1) * thing["speed"]  # they turn round at the edges
            thing["centre"] = inside
        if turnover > 0:
            present = [thing for thing in present if rng.random() >= turnover]
            present += [born() for _ in range(rng.binomial(n_objects, turnover))]
            if not present:
                present = [born()]
    table = np.array(rows, dtype=np.float64)
    return Boxes(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2:6], np.ones(len(table)))
