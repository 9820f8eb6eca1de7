"""The game of trees under Hamming cost: an interior point method, with cuts as they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.types import Array
from ...costs.base import Cost
from ...kernels import tree_cuts
from ...structures.base import Accuracy, Structure
from .base import USUAL, Equilibrium
from .double_oracle import DoubleOracle

__all__ = ["TreeGame"]

_STEPS = 60
_ROUNDS = 60
# A set that gets less than one from outside by more than this is cut off.
_LACK = 1e-11
# How near to zero a step may bring what must stay positive, and where a barrier is small enough.
_FRACTION = 0.995
_BARRIER = 1e-13
_NEAR = 1e-8
# Scores beyond this are left to the double oracle.
_FAR = 1e4


class TreeGame(DoubleOracle):
    """max over q of min over p of n − ⟨p, q⟩ + ⟨θ, q⟩ for arborescences and single-root trees without labels.

    Both polytopes have one constraint for each word, one for a single root, and one for each set of words, of which few
    matter. With those found so far both players' points follow one central path to the equilibrium (Mehrotra's
    predictor-corrector); then maximum flows find sets that get too little, until there are none. All but the constraints
    are diagonal, so a step costs O(n² r² + r³) for r constraints, about 15 steps for each set of cuts. What both best
    answers are worth, by argmax, certifies the gap; should it stay above ``tol`` (default 1e-9), and where scores
    forbid arcs, the double oracle plays.

    References: Mehrotra, "On the implementation of a primal-dual interior point method", 1992; Li, Saeed, Zhang, Ziebart
    and Gimpel, "Moment distributionally robust tree structured prediction", 2022, for the game.

    >>> import numpy as np
    >>> from fenchel.costs import Hamming
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import DependencyTree
    >>> found = find_game(DependencyTree(3), Hamming()).solve(np.zeros((1, 3, 4)))
    >>> found.value.round(6), found.adversary[0].round(3).tolist()[0], bool(found.gap <= 1e-9)
    (array([2.]), [0.333, 0.0, 0.333, 0.333], True)
    """

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        if getattr(structure, "labels", 0) != 1:
            return "is for trees without labels"
        return super().refusal(structure, cost)

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        n = len(theta)
        tol = 1e-9 if accuracy.tol is None else accuracy.tol
        scores = self.structure.center(theta.astype(np.float64))
        found = Equilibrium(
            np.zeros(n), np.zeros(n), np.zeros(theta.shape, theta.dtype), np.zeros(theta.shape, theta.dtype),
            np.full(n, np.inf), np.zeros(n, np.int64), np.zeros(n, bool), None,
        )  # fmt: skip
        for i in range(n):
            if not np.abs(scores[i]).max(initial=0) <= _FAR:
                continue
            path = _Path(scores[i], self.structure.single_root)  # type: ignore[attr-defined]
            if not path.run(tol):
                continue
            q, p = path.q, path.p
            best = self.structure._argmax(np.stack([q, scores[i] - p]))
            size = float(len(q))
            value = float((scores[i] * q).sum()) + size - float((best[0] * q).sum())
            upper = float((best[1] * (scores[i] - p)).sum()) + size
            # the value is linear in points that miss the set by no more than this
            slack = path.lack * (1.0 + float(np.abs(scores[i]).max())) * size
            found.gap[i] = max(upper - value, 0.0) + slack
            found.risk[i] = size - float((best[0] * q).sum())
            found.value[i] = value + float(((theta[i] - scores[i]) * q).sum())
            found.adversary[i], found.predictor[i] = q, p
            found.n_iter[i] = path.n_steps
            found.converged[i] = found.gap[i] <= tol + 1e-13 * (1.0 + abs(value))
        left = np.flatnonzero(~found.converged)
        if len(left):
            rest = super().solve(theta[left], accuracy)
            for name in ("value", "risk", "adversary", "predictor", "gap", "n_iter", "converged"):
                getattr(found, name)[left] = getattr(rest, name)
        return found


@dataclass
class _Side:
    """One player: constraints a x <= b (the first ``n_equal`` with =), multipliers, slacks, and the point with its own."""

    a: Array
    b: Array
    n_equal: int
    x: Array
    z: Array
    w: Array
    s: Array

    @property
    def loose(self) -> slice:
        return slice(self.n_equal, None)


class _Path:
    """The central path of one game, flat over the arcs that are not from a word to itself."""

    def __init__(self, scores: Array, single_root: bool) -> None:
        n = len(scores)
        self.n, self.single_root = n, single_root
        self.real: Array = np.ones((n, n + 1), bool)
        self.real[np.arange(n), np.arange(1, n + 1)] = False
        self.theta = scores[self.real]
        self.cuts: list[list[Array]] = [[], []]
        self.n_steps = 0
        self.lack = np.inf
        rows = np.zeros((n + int(single_root), n, n + 1))
        rows[np.arange(n), np.arange(n)] = 1.0
        if single_root:
            rows[n, :, 0] = 1.0
        self.equal = rows[:, self.real]

    def run(self, tol: float) -> bool:
        """Whether both points are in the set, but for ``lack``."""
        for _ in range(_ROUNDS):
            if not self.follow(max(_BARRIER, 0.02 * tol / (4 * self.theta.size + 4))):
                return False
            self.q, self.p = self.full(self.sides[0].x), self.full(self.sides[1].x)
            self.lack, fresh = 0.0, False
            for cuts, point in zip(self.cuts, (self.q, self.p), strict=True):
                sets, lack = self.separate(point)
                self.lack = max(self.lack, lack)
                new = [s for s in sets if not any(np.array_equal(s, old) for old in cuts)]
                cuts += new
                fresh = fresh or bool(new)
            if self.lack <= max(_LACK, 1e-2 * tol / (self.n * (1.0 + np.abs(self.theta).max(initial=0)))) or not fresh:
                return True
        return False

    def full(self, x: Array) -> Array:
        out = np.zeros((self.n, self.n + 1))
        out[self.real] = np.maximum(x, 0.0)
        return out / out.sum(axis=1, keepdims=True)

    def separate(self, point: Array) -> tuple[list[Array], float]:
        flows = np.zeros((1, self.n + 1, self.n + 1))
        flows[0, :, 1:] = point.T
        inside, lack = np.zeros((1, self.n + 1, self.n + 1), np.int64), np.zeros((1, self.n + 1))
        tree_cuts.separate(0, 1, flows, False, inside, lack)
        sets = np.unique(inside[0, lack[0] > 0.1 * _LACK].astype(bool), axis=0)
        off = float(lack.max(initial=0))
        if self.single_root:
            off = max(off, abs(float(point[:, 0].sum()) - 1.0))
        return list(sets), off

    def side(self, cuts: list[Array]) -> _Side:
        sets = np.array(cuts, bool).reshape(-1, self.n + 1)
        entering = (sets[:, 1:, None] & ~sets[:, None, :]).astype(np.float64)[:, self.real]
        a = np.concatenate([self.equal, -entering])
        b = np.concatenate([np.ones(len(self.equal)), -np.ones(len(sets))])
        x = np.full(a.shape[1], 1.0 / self.n)
        loose = np.ones(len(sets))
        scale = 1.0 + float(np.abs(self.theta).max(initial=0))
        w = np.concatenate([np.zeros(len(self.equal)), scale * loose])
        return _Side(a, b, len(self.equal), x, np.full(a.shape[1], scale), w, loose.copy())

    def follow(self, enough: float) -> bool:
        """Go along the path until products are ``enough`` on average; whether that came near."""
        self.sides = self.side(self.cuts[0]), self.side(self.cuts[1])
        q, p = self.sides
        for _ in range(_STEPS):
            self.n_steps += 1
            rq, rp = self.theta - p.x - q.w @ q.a + q.z, q.x - p.w @ p.a + p.z
            fq, fp = q.a @ q.x - q.b, p.a @ p.x - p.b
            fq[q.loose] += q.s
            fp[p.loose] += p.s
            count = q.x.size + p.x.size + q.s.size + p.s.size
            barrier = float(q.x @ q.z + p.x @ p.z + q.s @ q.w[q.loose] + p.s @ p.w[p.loose]) / count
            off = max(float(np.abs(r).max(initial=0)) for r in (rq, rp, fq, fp))
            if barrier <= enough and off <= max(1e-12, 0.1 * enough) * (1.0 + np.abs(self.theta).max(initial=0)):
                return True
            try:
                steps = self._direction(rq, rp, fq, fp, [-v for v in self._products()])
                far = self._longest(steps, 1.0)
                ahead = self._barrier_after(steps, far) / max(barrier, 1e-300)
                target = barrier * min(ahead, 1.0) ** 3
                second = [
                    target - v - dx * dz for v, (dx, dz) in zip(self._products(), self._pairs(steps), strict=True)
                ]
                steps = self._direction(rq, rp, fq, fp, second)
            except np.linalg.LinAlgError:
                return barrier <= max(_NEAR, enough)
            length = min(1.0, self._longest(steps, _FRACTION))
            if not length > 1e-9:
                return barrier <= max(_NEAR, enough)
            for side, (dx, dz, dw, ds) in zip(self.sides, steps, strict=True):
                side.x, side.z = side.x + length * dx, side.z + length * dz
                side.w, side.s = side.w + length * dw, side.s + length * ds
        return barrier <= max(_NEAR, enough)

    def _products(self) -> list[Array]:
        q, p = self.sides
        return [q.x * q.z, p.x * p.z, q.s * q.w[q.loose], p.s * p.w[p.loose]]

    def _pairs(self, steps: Any) -> list[tuple[Array, Array]]:
        (qx, qz, qw, qs), (px, pz, pw, ps) = steps
        q, p = self.sides
        return [(qx, qz), (px, pz), (qs, qw[q.loose]), (ps, pw[p.loose])]

    def _direction(self, rq: Array, rp: Array, fq: Array, fp: Array, c: list[Array]) -> Any:
        """The Newton step towards products x z + c: the diagonal part solved by hand, the constraints by one system."""
        q, p = self.sides
        cq, cp, csq, csp = c
        dq_, dp_ = q.z / q.x, p.z / p.x
        shared = 1.0 / (1.0 + dq_ * dp_)
        gq, gp = rq + cq / q.x, rp + cp / p.x
        base_q, base_p = shared * (dp_ * gq - gp), shared * (gq + dq_ * gp)
        mq, mp = len(q.b), len(p.b)
        matrix = np.empty((mq + mp, mq + mp))
        matrix[:mq, :mq] = -(q.a * (dp_ * shared)) @ q.a.T
        matrix[:mq, mq:] = (q.a * shared) @ p.a.T
        matrix[mq:, :mq] = -matrix[:mq, mq:].T
        matrix[mq:, mq:] = -(p.a * (dq_ * shared)) @ p.a.T
        right = np.concatenate([-fq - q.a @ base_q, -fp - p.a @ base_p])
        diagonal = np.full(mq + mp, 1e-14)
        diagonal[q.n_equal : mq] += q.s / q.w[q.loose]
        diagonal[mq + p.n_equal :] += p.s / p.w[p.loose]
        right[q.n_equal : mq] -= csq / q.w[q.loose]
        right[mq + p.n_equal :] -= csp / p.w[p.loose]
        matrix[np.diag_indices_from(matrix)] -= diagonal
        found = np.linalg.solve(matrix, right)
        wq, wp = found[:mq], found[mq:]
        pull_q, pull_p = wq @ q.a, wp @ p.a
        xq = base_q + shared * pull_p - dp_ * shared * pull_q
        xp = base_p - shared * pull_q - dq_ * shared * pull_p
        zq, zp = (cq - q.z * xq) / q.x, (cp - p.z * xp) / p.x
        sq, sp = (csq - q.s * wq[q.loose]) / q.w[q.loose], (csp - p.s * wp[p.loose]) / p.w[p.loose]
        return (xq, zq, wq, sq), (xp, zp, wp, sp)

    def _longest(self, steps: Any, fraction: float) -> float:
        length = np.inf
        for side, (dx, dz, dw, ds) in zip(self.sides, steps, strict=True):
            for now, step in ((side.x, dx), (side.z, dz), (side.w[side.loose], dw[side.loose]), (side.s, ds)):
                falling = step < 0
                if falling.any():
                    length = min(length, fraction * float((now[falling] / -step[falling]).min()))
        return length

    def _barrier_after(self, steps: Any, length: float) -> float:
        length = min(length, 1.0)
        total, count = 0.0, 0
        for side, (dx, dz, dw, ds) in zip(self.sides, steps, strict=True):
            total += float((side.x + length * dx) @ (side.z + length * dz))
            total += float((side.s + length * ds) @ (side.w + length * dw)[side.loose])
            count += side.x.size + side.s.size
        return total / count
