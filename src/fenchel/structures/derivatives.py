"""How predictions move with the scores: products of a vector with the derivative of ∇Ω*, which is symmetric.

Plain NumPy, over rows. A projection is differentiated on its active face: as long as the same constraints hold with equality
it is a linear map there. Gibbs marginals are differentiated as what their derivative is, the covariance of the vertex.
At the kinks of a projection (a null set) the answer is the derivative of one side.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from .._core import parallel
from .._core.errors import IncompatiblePair
from .._core.ragged import Ragged
from .._core.types import Array, IntArray
from ..kernels.chain_covariance import covariances
from ..kernels.tree_derivative import directional
from .base import Accuracy, Structure
from .birkhoff import Birkhoff
from .budget import Budget
from .chain import Chain, Chains
from .cube import Cube
from .generic import project_by_argmax
from .matching import Matching
from .order_simplex import OrderSimplex
from .permutahedron import Permutahedron
from .product import Product
from .ragged import Family
from .reals import NonNegative, Reals
from .simplex import Simplex
from .spanning_tree import SpanningTree
from .tree import Arborescence, DependencyTree

__all__ = ["derivative_product"]

_MOST_OUTPUTS = 20_000
_MOST_DENSE = 1500
_LARGE = 300.0
"""Inverses with larger entries are not squared."""


def derivative_product(structure: Structure, psi: str, theta: Any, mu: Any, direction: Any, support: Any = None) -> Any:
    """The derivative of the prediction at ``theta``, which is ``mu``, along a direction, row by row (float64).

    ``psi`` is "euclidean", "kl" or "gibbs"; ``support`` the active set that the projection ended with, if it is known.
    """
    if isinstance(structure, Chains) and psi == "gibbs" and not structure.tied:
        out = np.empty(mu.flat.size)
        _chain_covariances(
            structure.labels, mu.flat, direction.flat, mu.offsets[:-1], structure._layout(mu).lengths, out
        )
        return mu.like(out)
    if isinstance(structure, Family):
        result = Ragged.empty(mu.sizes)
        for member, items in structure.groups(mu):
            parts = [rows.rows(items, member.shape) for rows in (theta, mu, direction)]
            result.set_rows(items, derivative_product(member, psi, *parts))
        return result
    if isinstance(structure, Product):
        inner = structure.structure
        parts = [rows.reshape(-1, *inner.shape) for rows in (theta, mu, direction)]
        return derivative_product(inner, psi, *parts).reshape(mu.shape)
    precise = mu.dtype == np.float64
    theta, mu = theta.astype(np.float64, copy=False), mu.astype(np.float64, copy=False)
    u = direction.astype(np.float64, copy=False)
    if psi == "gibbs":
        return _covariance(structure, theta, mu, u, precise)
    if isinstance(structure, Chain) and psi == "kl":
        return _chain_kl(structure, mu, u)
    return _on_face(structure, psi, theta, mu, u, support)


# -- projections: linear on the active face ----------------------------------------------------------------------------


def _on_face(structure: Structure, psi: str, theta: Array, mu: Array, u: Array, support: Any) -> Array:
    """D u less what equalities take away, where D is the inverse of Ψ'' on the entries that are free to move."""
    tiny = 1e-9 * max(1.0, float(np.abs(mu).max(initial=0)))
    curvature = mu if psi == "kl" else np.ones_like(mu)
    if isinstance(structure, Reals):
        return u
    if isinstance(structure, NonNegative):
        return np.where(theta > 0, u, 0) if psi == "euclidean" else mu * u
    if isinstance(structure, Cube):
        return np.where((mu > 0) & (mu < 1), curvature * u, 0)
    if isinstance(structure, OrderSimplex):
        return _pooled(mu, u) * curvature
    if isinstance(structure, Simplex):
        free = np.where(mu > 0, curvature, 0)
        return _grouped(free, u, np.zeros(u.shape, np.int64), 1)
    if isinstance(structure, Budget):
        return _budget(structure, mu, np.where((mu > 0) & (mu < 1), curvature, 0), u, tiny)
    if isinstance(structure, Permutahedron):
        return _permutahedron(structure, theta, mu, curvature, u)
    if isinstance(structure, Birkhoff | Matching):
        return _bipartite(structure, mu, np.where(mu > tiny, curvature, 0), u)
    if psi == "kl":
        raise IncompatiblePair(f"KL projections on {structure!r} have no derivative here; use Project or Marginals")
    if support is None:
        support = project_by_argmax(structure, theta, Accuracy(1e-13, None)).support
    _, atoms = support.unfold()
    flat = u.reshape(len(u), -1)
    edges = atoms[:, 1:] - atoms[:, :1]
    gram = edges @ edges.swapaxes(1, 2)
    along = np.linalg.pinv(gram, rcond=1e-10, hermitian=True) @ (edges @ flat[:, :, None])
    return cast(Array, (edges.swapaxes(1, 2) @ along)[:, :, 0].reshape(u.shape))


def _grouped(free: Array, u: Array, group: IntArray, n_groups: int) -> Array:
    """Each group of entries keeps its sum: D u less its weighted mean there."""
    place = group + n_groups * np.arange(len(u))[:, None]
    totals = np.bincount(place.ravel(), free.ravel(), n_groups * len(u))
    moved = np.bincount(place.ravel(), (free * u).ravel(), n_groups * len(u))
    mean = moved / np.where(totals > 0, totals, 1)
    return cast(Array, free * (u - mean[place]))


def _pooled(mu: Array, u: Array) -> Array:
    """Isotonic regression with bounds: neighbours that are pooled move together, those at 0 and 1 stay."""
    n, d = mu.shape
    if d == 0:
        return u
    starts = np.concatenate([np.ones((n, 1), bool), mu[:, 1:] != mu[:, :-1]], axis=1)
    block = np.cumsum(starts.ravel()) - 1
    totals = np.bincount(block, u.ravel()) / np.bincount(block)
    return np.where((mu > 0) & (mu < 1), totals[block].reshape(u.shape), 0)


def _budget(structure: Budget, mu: Array, free: Array, u: Array, tiny: float) -> Array:
    low, high = structure._bounds(len(mu))
    total = mu.sum(axis=1)
    tight = (np.abs(total - low) <= tiny * mu.shape[1]) | (np.abs(total - high) <= tiny * mu.shape[1])
    kept = _grouped(free, u, np.zeros(u.shape, np.int64), 1)
    return np.where(tight[:, None], kept, free * u)


def _permutahedron(structure: Permutahedron, theta: Array, mu: Array, curvature: Array, u: Array) -> Array:
    """Sorted, the points fall into blocks whose sums are those of the weights; each keeps its sum."""
    order = np.argsort(-theta, axis=1, kind="stable")
    weights = np.sort(np.asarray(structure.weights, dtype=np.float64))[::-1]
    slack = np.cumsum(weights) - np.cumsum(np.take_along_axis(mu, order, axis=1), axis=1)
    ends = slack[:, :-1] <= 1e-9 * max(1.0, float(np.abs(weights).sum()))
    sorted_group = np.concatenate([np.zeros((len(mu), 1), np.int64), np.cumsum(ends, axis=1)], axis=1)
    group = np.empty_like(sorted_group)
    np.put_along_axis(group, order, sorted_group, axis=1)
    return _grouped(curvature, u, group, mu.shape[1])


def _bipartite(structure: Birkhoff | Matching, mu: Array, free: Array, u: Array) -> Array:
    """Rows keep their sums, and columns those that are full: two potentials by a small linear system."""
    n, m = mu.shape[1:]
    full = np.ones((len(mu), m), bool)
    if isinstance(structure, Matching):
        full = mu.sum(axis=1) >= 1 - 1e-7
        full[:, -1] = False
    columns = free * full[:, None, :]
    system = np.zeros((len(mu), n + m, n + m))
    system[:, np.arange(n), np.arange(n)] = free.sum(axis=2)
    system[:, np.arange(n, n + m), np.arange(n, n + m)] = columns.sum(axis=1)
    system[:, :n, n:] = columns
    system[:, n:, :n] = columns.swapaxes(1, 2)
    target = np.concatenate([(free * u).sum(axis=2), (columns * u).sum(axis=1)], axis=1)
    potentials = (np.linalg.pinv(system, rcond=1e-12, hermitian=True) @ target[:, :, None])[:, :, 0]
    off = potentials[:, :n, None] + np.where(full, potentials[:, n:], 0)[:, None, :]
    return cast(Array, free * (u - off))


def _chain_kl(structure: Chain, mu: Array, u: Array) -> Array:
    """D u − D Aᵀ (A D Aᵀ)⁺ A D u, where A says that positions sum to one and pairs agree with their positions."""
    if structure.tied or structure.dim > _MOST_DENSE:
        raise IncompatiblePair(f"KL projections on {structure!r} have no derivative here; use Marginals or Project")
    n, k = structure.length, structure.labels
    rows = np.zeros((n + 2 * max(n - 1, 0) * k, structure.dim))
    for t in range(n):
        rows[t, t * k : (t + 1) * k] = 1
    for t in range(n - 1):
        pair = np.arange(k * k).reshape(k, k) + n * k + t * k * k
        for i in range(k):
            left, right = n + 2 * (t * k + i), n + 2 * (t * k + i) + 1
            rows[left, pair[i]], rows[left, t * k + i] = 1, -1
            rows[right, pair[:, i]], rows[right, (t + 1) * k + i] = 1, -1
    system = np.einsum("ad,nd,bd->nab", rows, mu, rows, optimize=True)
    potentials = np.linalg.pinv(system, rcond=1e-12, hermitian=True) @ (rows @ (mu * u).T).T[:, :, None]
    return cast(Array, mu * (u - potentials[:, :, 0] @ rows))


# -- Gibbs marginals: covariances --------------------------------------------------------------------------------------


def _covariance(structure: Structure, theta: Array, mu: Array, u: Array, precise: bool) -> Array:
    if isinstance(structure, Chain):
        return _chain(structure, theta, mu, u)
    if isinstance(structure, Cube):
        return mu * (1 - mu) * u
    if type(structure) is Simplex:
        return mu * (u - (mu * u).sum(axis=-1, keepdims=True))
    if isinstance(structure, Arborescence | DependencyTree):
        return _tree(theta, mu, u, structure.single_root, precise)
    if isinstance(structure, SpanningTree) and structure.n > 1:
        arcs, along = structure._arcs(theta), structure._arcs(u)
        mean = Arborescence(structure.n - 1)._marginals(arcs)[1]
        return structure._folded(_tree(arcs, mean, np.where(np.isfinite(along), along, 0), False, True))
    n = structure.n_vertices
    if structure.missing().get("vertices") is not None or n is None or n > _MOST_OUTPUTS:
        raise IncompatiblePair(
            f"marginals of {structure!r} have no derivative: covariances are known for simplices, cubes, grades, chains, "
            f"trees, and by enumeration up to {_MOST_OUTPUTS} outputs; use Project"
        )
    vertices = structure.vertices().reshape(n, -1)
    flat = theta.reshape(len(theta), structure.dim)
    totals = np.where(np.isfinite(flat), flat, 0) @ vertices.T
    totals[(np.isneginf(flat).astype(float) @ np.abs(vertices).T) > 0] = -np.inf
    p = np.exp(totals - totals.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    along = u.reshape(len(u), structure.dim) @ vertices.T
    along -= (p * along).sum(axis=1, keepdims=True)
    return cast(Array, ((p * along) @ vertices).reshape(u.shape))


def _chain_covariances(k: int, mu: Array, u: Array, starts: IntArray, lengths: IntArray, out: Array) -> None:
    mu, u = np.ascontiguousarray(mu, np.float64), np.ascontiguousarray(u, np.float64)
    parallel.run(covariances, len(starts), float(lengths.sum()) * k * k, mu, u, starts, lengths, k, out)


def _chain(structure: Chain, theta: Array, mu: Array, u: Array) -> Array:
    n, k, b = structure.length, structure.labels, len(mu)
    if not structure.tied:
        out = np.empty((b, structure.dim))
        _chain_covariances(
            k, mu.reshape(-1), u.reshape(-1), np.arange(b) * structure.dim, np.full(b, n), out.reshape(-1)
        )
        return out
    # one table for all pairs: that of the untied chain with the table at every pair, summed over pairs
    plain, pairs = Chain(n, k), max(n - 1, 0)
    wide = [np.concatenate([x[:, : n * k], np.tile(x[:, n * k :], (1, pairs))], axis=1) for x in (theta, u)]
    moved = _chain(plain, wide[0], plain._marginals(wide[0])[1], wide[1])
    table = moved[:, n * k :].reshape(b, pairs, structure.dim - n * k).sum(axis=1)
    return np.concatenate([moved[:, : n * k], table], axis=1)


def _tree(theta: Array, mu: Array, u: Array, single_root: bool, precise: bool) -> Array:
    """d(w s) for arc weights w = exp θ and slopes s of log det L: with B the inverse of the Laplacian L, dB = −B dL B.

    Where B is large that would lose digits, and tangents are carried through the elimination instead.
    """
    n = theta.shape[1]
    axes = tuple(range(2, theta.ndim))
    w = np.exp(theta - theta.max(axis=axes, keepdims=True))
    words = np.arange(n)
    w[:, words, words + 1] = 0
    moved = w * u
    single = theta.ndim == 3
    arcs, along, mean = (w, moved, mu) if single else (w.sum(axis=3), moved.sum(axis=3), mu.sum(axis=3))
    inverse = _inverse_from_slopes(mean, arcs, single_root)
    small = inverse.max(axis=(1, 2), initial=0) < _LARGE if precise else np.zeros(len(w), bool)  # no entry is negative
    rest = np.flatnonzero(~small)
    B, turned = (inverse, along) if not len(rest) else (inverse[small], along[small])
    bend = -_by_arc(B @ _laplacian(turned, single_root) @ B, single_root)
    if len(rest):
        bend, done = np.empty_like(arcs), bend
        bend[small] = done
        found = np.empty((len(rest), n, n + 1))
        parallel.run(
            directional, len(rest), float(len(rest) * n**3), np.ascontiguousarray(arcs[rest]),
            np.ascontiguousarray(along[rest]), single_root, found,
        )  # fmt: skip
        bend[rest] = found
    return cast(Array, mu * u + w * (bend if single else bend[..., None]))


def _laplacian(w: Array, single_root: bool) -> Array:
    """The matrix whose determinant sums the products of arcs over trees; a row for each word, linear in the arcs."""
    n = w.shape[1]
    words = np.arange(n)
    matrix = -w[:, :, 1:]
    matrix[:, words, words] += (w[:, :, 1:] if single_root else w).sum(axis=2)
    if single_root:
        matrix[:, :, 0] = w[:, :, 0]
    return matrix


def _inverse_from_slopes(mu: Array, w: Array, single_root: bool) -> Array:
    """B from the marginals w tr(B ∂L), by :func:`_by_arc` turned round: no system to solve. Infinite where an arc cannot be."""
    n = w.shape[1]
    words = np.arange(n)
    slope = np.divide(mu, w, out=np.full(w.shape, np.inf), where=w > 1e-250)
    slope[:, words, words + 1] = 0.0
    if not np.isfinite(slope).all():  # that item is done in another way
        slope[~np.isfinite(slope).all(axis=(1, 2))] = 10 * _LARGE
    if single_root:
        diagonal = slope[:, :, 1].copy()  # what the arc from the first word has: that word has no part in it
        diagonal[:, 0] = 0
    else:
        diagonal = slope[:, :, 0]
    transposed = diagonal[:, :, None] - slope[:, :, 1:]
    if single_root:
        transposed[:, :, 0] = slope[:, :, 0]
        transposed[:, words[1:], words[1:]] = diagonal[:, 1:]
    else:
        transposed[:, words, words] = diagonal
    return transposed.swapaxes(1, 2)


def _by_arc(inverse: Array, single_root: bool) -> Array:
    """The slope tr(B ∂L) in each arc of this (or of a change of) B: the adjoint of :func:`_laplacian`."""
    transposed = inverse.swapaxes(1, 2)
    out = np.empty((*inverse.shape[:2], inverse.shape[1] + 1))
    diagonal = np.diagonal(inverse, axis1=1, axis2=2).copy()
    if single_root:
        out[:, :, 0] = transposed[:, :, 0]
        diagonal[:, 0] = 0
        transposed = transposed.copy()
        transposed[:, :, 0] = 0
    else:
        out[:, :, 0] = diagonal
    out[:, :, 1:] = diagonal[:, :, None] - transposed
    return out
