"""The weights of kernel ridge regression for any outputs: α(x) = (K + nλI)⁻¹ K_x, exactly or with centres (Nyström).

Both systems answer the same questions. ``means(features(X), coefficients(E))`` are the sums Σ_i α_i(x) e_i without the
weights being made; ``weights`` makes them; errors of leaving one example out are in closed form for many λ from one
factorisation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core.errors import InvalidInput, warn_user
from .._core.kernel_matrix import kernel_matrix
from .._core.parallel import map_items
from .._core.types import Array
from .block_tridiagonal import BlockTridiagonal

__all__ = ["ExactRidge", "KernelSource", "NystromRidge", "RidgeSystem"]

_BLOCK_BYTES = 2**24  # a block and what is made of it stay in the cache
_AT_ONCE = 32
_CG_ITERATIONS = 100
_CG_TOL = 1e-7
# Some tens of passes over the kernel (each an exponential an entry) take as long as one factorisation (2m operations an
# entry) at about this many centres, where targets are few beside them.
_CG_CENTRES = 4000
_CG_TARGETS = 1 / 40


class KernelSource:
    """Kernel values of training inputs; ``kernel="precomputed"`` takes them from the inputs, which are then kernel rows."""

    def __init__(self, X: Any, kernel: str | Callable[..., Any], params: dict[str, Any]) -> None:
        self.X, self.kernel, self.params = X, kernel, params
        self.given = kernel == "precomputed"
        self.n = X.shape[0]

    def gram(self) -> Array:
        """K between all training inputs, in an array of its own."""
        if self.given:
            return np.array(self.X, dtype=np.float64)
        return self.rows(self.X)

    def rows(self, X: Any, basis: Array | None = None) -> Array:
        """k between inputs and the training inputs, or those of ``basis``."""
        if self.given:
            return np.asarray(X if basis is None else X[:, basis], dtype=np.float64)
        return kernel_matrix(X, self.X if basis is None else self.X[basis], self.kernel, self.params)


class RidgeSystem(ABC):
    """(K + nλI)⁻¹ at one λ after the other; ``roots`` are roots of sample weights whose mean is one."""

    basis: Array | None = None
    """The training inputs that features are kernels with: all (None), or the centres."""

    def __init__(self, source: KernelSource, roots: Array | None) -> None:
        self.source = source
        self.n = source.n
        # a weight of zero would leave 0/0 where its example is left out; this one is as good as zero
        self.roots = np.ones(self.n) if roots is None else np.maximum(roots, 1e-8)

    def features(self, X: Any) -> Array:
        """Kernel rows of inputs."""
        return self.source.rows(X, self.basis)

    @abstractmethod
    def set_alpha(self, alpha: float) -> None:
        """Use this λ from now on."""

    @abstractmethod
    def coefficients(self, targets: Array) -> Array:
        """C with Σ_i α_i(x) e_i = features(x) C, for targets with the rows e_i."""

    @abstractmethod
    def weights(self, features: Array) -> Array:
        """α(x) for kernel rows."""

    @abstractmethod
    def leave_one_out_errors(self, alphas: Array, targets: Array) -> Array:
        """For each λ the mean over examples of ‖e_i − Σ_j α_j e_j‖², with weights learned without example i."""

    @abstractmethod
    def leave_one_out_means(self, rows: Array, targets: Array) -> Array:
        """Σ_j α_j e_j at the inputs of these examples, with weights learned without them."""

    @abstractmethod
    def leave_one_out_weights(self, rows: Array) -> Array:
        """The weights at the inputs of these examples, learned without them (its own weight is zero)."""


class ExactRidge(RidgeSystem):
    """All training inputs. One λ: a Cholesky factorisation, n³/3 operations.

    For many λ, and from the first call of :meth:`leave_one_out_errors` on, the matrix is turned to block tridiagonal form
    instead (about 8n³/3 operations), from which any λ costs O(n²) a column. 16n² bytes while it is made, 8n² after.
    """

    def __init__(self, source: KernelSource, roots: Array | None = None, *, many: bool = False) -> None:
        super().__init__(source, roots)
        gram = source.gram()
        if not isinstance(source.kernel, str) or source.given:
            _check_symmetric(gram, self.n)
        if roots is not None:
            gram *= self.roots[:, None]
            gram *= self.roots
        self._gram: Array | None = gram
        self._factor: Array | None = None
        self._form: BlockTridiagonal | None = None
        self._ridge = 0.0
        if many:
            self._decompose()

    @staticmethod
    def bytes_needed(n: int) -> int:
        """The most memory that a system of n inputs takes."""
        return 16 * n * n

    def _decompose(self) -> BlockTridiagonal:
        form = self._form
        if form is None:
            form = self._form = BlockTridiagonal(self._taken_gram())
            slack = 1e-8 * max(form.norm, 1e-300) * self.n
            try:
                form.set_ridge(slack)
            except np.linalg.LinAlgError:
                raise InvalidInput(
                    f"the kernel is not positive semi-definite on the inputs: an eigenvalue is below {-slack:.2g}"
                ) from None
            self._factor = None
            if self._ridge > 0:
                self.set_alpha(self._ridge / self.n)
        return form

    def _taken_gram(self) -> Array:
        gram, self._gram = self._gram, None
        if gram is None:  # it was overwritten by a factorisation
            gram = self.source.gram() * self.roots[:, None] * self.roots
        return gram

    def set_alpha(self, alpha: float) -> None:
        self._ridge = self.n * alpha
        if self._form is not None:
            with self._refusing(self._ridge):
                self._form.set_ridge(self._ridge)
            return
        from scipy.linalg.lapack import dpotrf

        gram = self._taken_gram()
        gram.flat[:: self.n + 1] += self._ridge
        # gram is symmetric: its transpose is the same matrix in the order that LAPACK wants, and is overwritten in place
        self._factor, failed = dpotrf(gram.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            with self._refusing(self._ridge):
                raise np.linalg.LinAlgError

    @contextmanager
    def _refusing(self, ridge: float) -> Iterator[None]:
        """Say what a factorisation that fails means."""
        try:
            yield
        except np.linalg.LinAlgError:
            raise InvalidInput(
                f"the kernel matrix plus n·alpha = {ridge:.3g} is not positive definite: the kernel is no kernel, or alpha "
                "is too small for it"
            ) from None

    def _solve(self, right: Array) -> Array:
        """(K + nλI)⁻¹ times columns."""
        if self._form is not None:
            return self._form.solve(right)
        from scipy.linalg.lapack import dpotrs

        return np.asarray(dpotrs(self._factor, right, lower=1)[0])

    def coefficients(self, targets: Array) -> Array:
        return self.roots[:, None] * self._solve(self.roots[:, None] * targets)

    def weights(self, features: Array) -> Array:
        return (self._solve((features * self.roots).T) * self.roots[:, None]).T

    def leave_one_out_errors(self, alphas: Array, targets: Array) -> Array:
        form, ridges = self._decompose(), self.n * np.asarray(alphas, dtype=np.float64)
        errors = np.empty(len(ridges))
        with self._refusing(float(ridges.min(initial=np.inf))):
            diagonals = form.inverse_diagonals(ridges)
            for j, solved in enumerate(form.solve_each(ridges, self.roots[:, None] * targets)):
                errors[j] = ((solved / diagonals[j][:, None]) ** 2).sum() / self.n
        return errors

    def leave_one_out_means(self, rows: Array, targets: Array) -> Array:
        off = self._solve(self.roots[:, None] * targets)[rows]
        if self._form is not None:
            own = self._form.inverse_diagonals(np.array([self._ridge]), rows)[0]
        else:
            own = self._inverse_rows(rows)[np.arange(len(rows)), rows]
        return np.asarray(targets[rows] - off / (self.roots[rows] * own)[:, None])

    def leave_one_out_weights(self, rows: Array) -> Array:
        # example i is predicted by −Σ_{j≠i} G_ij e_j / G_ii with G = (K + nλI)⁻¹
        inverse = self._inverse_rows(rows)
        own = inverse[np.arange(len(rows)), rows]
        weights = -inverse * (self.roots / (self.roots[rows] * own)[:, None])
        weights[np.arange(len(rows)), rows] = 0
        return weights

    def _inverse_rows(self, rows: Array) -> Array:
        """Rows of (K + nλI)⁻¹."""
        if self._form is not None:
            return self._form.inverse_rows(rows)
        units = np.zeros((self.n, len(rows)))
        units[rows, np.arange(len(rows))] = 1
        return self._solve(units).T


def _check_symmetric(gram: Array, n: int) -> None:
    if gram.shape != (n, n):
        raise InvalidInput(f"the kernel matrix of training inputs has shape {gram.shape}, expected {(n, n)}")
    scale = max(float(np.abs(np.diag(gram)).max(initial=0)), 1e-300)
    for start in range(0, n, 256):
        part = slice(start, start + 256)
        if np.abs(gram[part] - gram[:, part].T).max() > 1e-8 * scale:
            raise InvalidInput("the kernel is not symmetric on the training inputs")


class NystromRidge(RidgeSystem):
    """Functions of the kernels with some training inputs, the centres, only: β with (ΦᵀΦ + nλI)β = ΦᵀE, Φ = K_nm L⁻ᵀ, K_mm = LLᵀ.

    K_nm is made in blocks, again for each pass, and never kept; memory is a few m² and some blocks. Mostly ΦᵀΦ is made and
    decomposed, O(n m²) once, and any λ is cheap. With one λ, 4000 centres or more and few targets beside them the system is
    solved by conjugate gradients, preconditioned by (n/m) LᵀL + nλI, what ΦᵀΦ would be if the centres were all: some tens of
    passes, O(n m (d + targets)) each.

    References: Williams and Seeger, "Using the Nyström method to speed up kernel machines", 2000; Rudi, Carratino and Rosasco,
    "FALKON: an optimal large scale kernel method", 2017.
    """

    def __init__(self, source: KernelSource, centres: Array, roots: Array | None = None) -> None:
        from scipy.linalg import cholesky

        super().__init__(source, roots)
        self.basis = np.asarray(centres)
        self.m = len(self.basis)
        between = source.rows(source.X[self.basis], self.basis)
        # centres may coincide: a ridge within rounding keeps the factor
        jitter = 10 * np.finfo(float).eps * max(float(np.trace(between)), 1e-300)
        for _ in range(4):
            try:
                self._low = cholesky(
                    between + jitter * np.eye(self.m), lower=True, overwrite_a=True, check_finite=False
                )
                break
            except np.linalg.LinAlgError:
                jitter *= 100
        else:
            raise InvalidInput("the kernel is not positive semi-definite on the centres")
        self._values: Array = np.zeros(0)
        self._vectors: Array | None = None
        self._ridge = 0.0

    @staticmethod
    def bytes_needed(n: int, m: int) -> int:
        """The most memory that a system of n inputs and m centres takes, targets and inputs apart."""
        return 40 * m * m + 16 * _BLOCK_BYTES + 64 * n

    def set_alpha(self, alpha: float) -> None:
        self._ridge = self.n * alpha

    def _parts(self) -> list[slice]:
        step = max(1, _BLOCK_BYTES // (8 * self.m))
        return [slice(start, min(start + step, self.n)) for start in range(0, self.n, step)]

    def _rows(self, part: slice) -> Array:
        """Weighted rows of K_nm."""
        rows = self.source.rows(self.source.X[part], self.basis)
        rows *= self.roots[part, None]
        return rows

    def _sum(self, term: Callable[[slice, Array], Array]) -> Array:
        """Σ over blocks of a term of their rows, on the pool; added up in the order of the blocks."""
        total = np.zeros(())
        parts = self._parts()
        for start in range(0, len(parts), _AT_ONCE):
            for value in map_items(lambda part: term(part, self._rows(part)), parts[start : start + _AT_ONCE]):
                total = total + value
        return total

    def _whiten(self, right: Array, *, transposed: bool = False) -> Array:
        """L⁻¹ times columns, or L⁻ᵀ."""
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self._low, right, lower=True, trans=int(transposed), check_finite=False))

    def _decompose(self) -> None:
        from scipy.linalg.blas import dsyrk

        total = np.zeros((self.m, self.m), order="F")
        for part in self._parts():
            total = dsyrk(1.0, self._whiten(self._rows(part).T), beta=1.0, c=total, lower=1, overwrite_c=1)
        values, self._vectors = np.linalg.eigh(total, UPLO="L")
        self._values = np.maximum(values, 0)

    def _spectral_solve(self, right: Array) -> Array:
        """(ΦᵀΦ + nλI)⁻¹ times columns."""
        if self._vectors is None:
            self._decompose()
        assert self._vectors is not None
        vectors, values = self._vectors, self._values
        return vectors @ ((vectors.T @ right) / (values + self._ridge)[:, None])

    def coefficients(self, targets: Array) -> Array:
        right = self._whiten(self._sum(lambda part, rows: rows.T @ (self.roots[part, None] * targets[part])))
        if self._vectors is None and self.m >= _CG_CENTRES and targets.shape[1] <= _CG_TARGETS * self.m:
            beta = self._conjugate_gradients(right)
        else:
            beta = self._spectral_solve(right)
        return self._whiten(beta, transposed=True)

    def _apply(self, beta: Array) -> Array:
        """(ΦᵀΦ + nλI) β, one pass over the kernel."""
        inner = self._whiten(beta, transposed=True)
        total = self._sum(lambda part, rows: rows.T @ (rows @ inner))
        return self._whiten(total) + self._ridge * beta

    def _conjugate_gradients(self, right: Array) -> Array:
        from scipy.linalg import cho_factor, cho_solve

        near = (self.n / self.m) * (self._low.T @ self._low)
        near.flat[:: self.m + 1] += self._ridge
        factor = cho_factor(near, lower=True, overwrite_a=True, check_finite=False)
        size = np.linalg.norm(right, axis=0)
        size[size == 0] = 1
        beta = np.zeros_like(right)
        residual = right.copy()
        step = ahead = cho_solve(factor, residual, check_finite=False)
        inner = np.einsum("ij,ij->j", residual, ahead)
        off = 1.0
        for iteration in range(_CG_ITERATIONS):
            image = self._apply(step)
            rate = inner / np.maximum(np.einsum("ij,ij->j", step, image), 1e-300)
            beta += rate * step
            residual -= rate * image
            if iteration % 20 == 19:  # what recursion says of the residual drifts
                residual = right - self._apply(beta)
            off = float((np.linalg.norm(residual, axis=0) / size).max(initial=0))
            if off <= _CG_TOL:
                break
            ahead = cho_solve(factor, residual, check_finite=False)
            before, inner = inner, np.einsum("ij,ij->j", residual, ahead)
            step = ahead + (inner / np.maximum(before, 1e-300)) * step
        self.cg_iterations = iteration + 1
        if off > _CG_TOL:
            off = float((np.linalg.norm(right - self._apply(beta), axis=0) / size).max(initial=0))
            if off > 10 * _CG_TOL:
                warn_user(
                    f"conjugate gradients stopped after {_CG_ITERATIONS} passes with a relative residual of {off:.2g}; "
                    "a larger alpha or fewer centres help"
                )
        return beta

    def weights(self, features: Array) -> Array:
        inner = self._whiten(self._spectral_solve(self._whiten(features.T)), transposed=True)
        weights = np.empty((len(features), self.n))

        def fill(part: slice) -> None:
            weights[:, part] = (self._rows(part) @ inner).T * self.roots[part]

        map_items(fill, self._parts())
        return weights

    def leave_one_out_errors(self, alphas: Array, targets: Array) -> Array:
        if self._vectors is None:
            self._decompose()
        assert self._vectors is not None
        turn = self._whiten(self._vectors, transposed=True)
        inverses = 1 / (self._values + self.n * np.asarray(alphas)[:, None])
        projected = self._sum(lambda part, rows: (rows @ turn).T @ (self.roots[part, None] * targets[part]))

        def errors(part: slice, rows: Array) -> Array:
            whitened = rows @ turn
            own = self.roots[part, None] * targets[part]
            hats = inverses @ (whitened**2).T
            found = np.empty(len(inverses))
            for j, inverse in enumerate(inverses):
                off = own - whitened @ (projected * inverse[:, None])
                found[j] = ((off / np.maximum(1 - hats[j], 1e-12)[:, None]) ** 2).sum()
            return found

        return self._sum(errors) / self.n

    def leave_one_out_weights(self, rows: Array) -> Array:
        features = self.source.rows(self.source.X[rows], self.basis)
        weights = self.weights(features)  # S_ij up to roots: what the fit at input i gives example j
        places = np.arange(len(rows))
        hats = weights[places, rows].copy()
        weights[places, rows] = 0
        return weights / np.maximum(1 - hats, 1e-12)[:, None]

    def leave_one_out_means(self, rows: Array, targets: Array) -> Array:
        features = self.source.rows(self.source.X[rows], self.basis)
        whitened = self._whiten(features.T)
        hats = np.einsum("ij,ij->j", whitened, self._spectral_solve(whitened)) * self.roots[rows] ** 2
        fits = features @ self.coefficients(targets)
        return np.asarray((fits - hats[:, None] * targets[rows]) / np.maximum(1 - hats, 1e-12)[:, None])
