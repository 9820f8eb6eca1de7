"""Layers that bring scores into the hull: projections, marginals, argmax, with exact backward passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core.errors import IncompatiblePair, InvalidInput
from ..structures.base import Structure
from ..structures.derivatives import derivative_product
from .batches import Batch, as_tensor, numbers, pack
from .native import has_native, prediction

__all__ = ["Argmax", "KLProject", "Marginals", "Project"]

_ORACLES = {"euclidean": "project", "kl": "kl_project", "gibbs": "marginals"}


class _Predict(torch.autograd.Function):
    """∇Ω*(θ) by the structure's oracle. Backward multiplies by its derivative, which is symmetric."""

    @staticmethod
    def forward(
        ctx: Any, theta: Tensor, shown: Tensor, batch: Batch, psi: str, mu: Callable[[], Any], support: Any
    ) -> Tensor:
        """``shown`` is the answer: the prediction, or what differs from it by a constant."""
        ctx.batch, ctx.psi, ctx.mu, ctx.support = batch, psi, mu, support
        ctx.save_for_backward(theta)
        return shown.view_as(shown)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (theta,) = ctx.saved_tensors
        moved: Tensor = _Move.apply(grads[0], theta, ctx.batch, ctx.psi, ctx.mu(), ctx.support)
        return moved, None, None, None, None, None


class _Move(torch.autograd.Function):
    """The derivative of the prediction times a vector: linear in it, and for projections constant in the scores."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, theta: Tensor, batch: Batch, psi: str, mu: Any, support: Any) -> Tensor:
        ctx.batch, ctx.psi, ctx.mu, ctx.support = batch, psi, mu, support
        ctx.save_for_backward(theta)
        rows, along = batch.rows(numbers(theta)), batch.rows(numbers(g))
        with np.errstate(invalid="ignore"):
            moved = derivative_product(batch.structure, psi, rows, mu, along, support)
        return as_tensor(moved, g)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (theta,) = ctx.saved_tensors
        if ctx.psi != "euclidean" and ctx.needs_input_grad[1]:
            raise IncompatiblePair(
                f"second derivatives of the {_ORACLES[ctx.psi]} of {ctx.batch.structure!r} are not computed; detach one of "
                "the factors, or use a simplex, a cube or grades, where PyTorch knows them"
            )
        moved: Tensor = _Move.apply(grads[0], theta, ctx.batch, ctx.psi, ctx.mu, ctx.support)
        return moved, None, None, None, None, None


def predict(batch: Batch, psi: str, theta: Tensor, tol: float | None = None, **options: Any) -> Tensor:
    """∇Ω*(θ) of rows as a tensor with its derivative."""
    structure = batch.structure
    if has_native(structure):
        return prediction(structure, psi, theta)
    mu, support = _solved(structure, psi, batch.rows(numbers(theta)), tol, options)
    found: Tensor = _Predict.apply(theta, as_tensor(mu, theta), batch, psi, lambda: mu, support)
    return found


def moving_with(batch: Batch, psi: str, theta: Tensor, residual: Tensor, mu: Callable[[], Any]) -> Tensor:
    """The residual of a loss, which moves as the prediction does; ``mu()`` computes the latter when it is needed."""
    found: Tensor = _Predict.apply(theta, residual, batch, psi, mu, None)
    return found


def _solved(structure: Structure, psi: str, rows: Any, tol: float | None, options: dict[str, Any]) -> tuple[Any, Any]:
    if psi == "gibbs":
        return structure.marginals(rows)[1], None
    oracle: Any = getattr(structure, _ORACLES[psi])
    if tol is not None:
        options = {**options, "tol": tol}
    points, solved = oracle(rows, return_info=True, **options)
    structure.warn_unsolved(solved)
    return points, solved.support


class _Layer(torch.nn.Module):
    """What the layers share: a structure, the form of scores."""

    psi: str

    def __init__(self, structure: Structure, *, strength: float = 1.0) -> None:
        super().__init__()
        if not isinstance(structure, Structure):
            raise InvalidInput(f"structure is {structure!r}, expected a structure such as Simplex(3)")
        if not 0 < strength < np.inf:
            raise InvalidInput(f"strength is {strength!r}, expected a finite number > 0")
        structure.require(_ORACLES[self.psi])
        self.structure = structure
        self.strength = float(strength)

    def extra_repr(self) -> str:
        return repr(self.structure) + ("" if self.strength == 1 else f", strength={self.strength:g}")

    def _options(self) -> dict[str, Any]:
        return {}

    def forward(self, theta: Any, lengths: Any = None) -> Any:
        """The points for scores ``(*batch, *shape)``; see the class for families and chains."""
        batch = pack(self.structure, theta, lengths)
        scores = batch.scores if self.strength == 1 else batch.scores / self.strength
        return batch.restore(predict(batch, self.psi, scores, **self._options()))


class _Iterating(_Layer):
    def __init__(
        self, structure: Structure, *, strength: float = 1.0, tol: float | None = None, max_iter: int | None = None
    ) -> None:
        super().__init__(structure, strength=strength)
        self.tol = tol
        self.max_iter = max_iter

    def _options(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter}


class Project(_Iterating):
    """The Euclidean projection on the hull of a structure, argmin ½‖μ − θ/strength‖²: sparsemax, SparseMAP, soft ranks.

    Backward is the derivative on the active face, where the projection is linear: exact wherever it is differentiable. By
    structure it costs a few sums (simplex, cube, grades, budgets, rankings), a small linear system (matchings), or
    one of the size of the active set (chains, trees, one's own maximiser).

    Scores have shape ``(*batch, *structure.shape)``. For chains they may be a pair of nodes and edges, and so is the answer.
    A family takes a list of tensors, or padded tensors with ``lengths``; padding of the answer is zero. Half precision is
    computed in float32.

    References: Martins and Astudillo, "From softmax to sparsemax", 2016; Niculae, Martins, Blondel and Cardie, "SparseMAP:
    differentiable sparse structured inference", 2018.

    >>> import torch
    >>> from fenchel.nn import Project
    >>> from fenchel.structures import Simplex
    >>> Project(Simplex(3))(torch.tensor([1.0, 0.5, -2.0]))
    tensor([0.7500, 0.2500, 0.0000])
    """

    psi = "euclidean"


class KLProject(_Iterating):
    """The Kullback-Leibler projection on the hull of a structure, argmax ⟨θ/strength, μ⟩ − ⟨μ, log μ⟩: softmax, Sinkhorn.

    Backward is exact: the solution of a small linear system of the equalities that hold. Forms of scores as in
    :class:`Project`.

    Reference: Blondel, "Structured prediction with projection oracles", 2019.

    >>> import torch
    >>> from fenchel.nn import KLProject
    >>> from fenchel.structures import Birkhoff
    >>> KLProject(Birkhoff(2))(torch.tensor([[2.0, 0.0], [0.0, 0.0]])).round(decimals=3)
    tensor([[0.7310, 0.2690],
            [0.2690, 0.7310]])
    """

    psi = "kl"


class Marginals(_Layer):
    """The mean vertex of the Gibbs distribution p(y) ∝ exp ⟨θ/strength, φ(y)⟩.

    Backward multiplies by the covariance of the vertex: from the marginals alone by two recursions on chains, O(length
    labels²); by the inverse of the Laplacian on trees, O(n³); by enumeration where outputs are few. Forms of scores as in
    :class:`Project`.

    >>> import torch
    >>> from fenchel.nn import Marginals
    >>> from fenchel.structures import Chain
    >>> nodes = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    >>> node, edge = Marginals(Chain(3, 2))((nodes, torch.eye(2)))
    >>> node.round(decimals=3)
    tensor([[0.6900, 0.3100],
            [0.5000, 0.5000],
            [0.3100, 0.6900]])
    """

    psi = "gibbs"


class _Constant(torch.autograd.Function):
    """An answer whose derivative is zero."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, answer: Tensor) -> Tensor:
        return answer.view_as(answer)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return torch.zeros_like(grads[0]), None


class Argmax(torch.nn.Module):
    """A vertex of highest score. Its derivative is zero wherever it exists, and so is what backward gives.

    For a training signal through a maximiser use :class:`Project` with a small strength, which is close to it.

    >>> import torch
    >>> from fenchel.nn import Argmax
    >>> from fenchel.structures import Permutahedron
    >>> Argmax(Permutahedron(3))(torch.tensor([0.1, 2.0, 0.5]))
    tensor([1., 3., 2.])
    """

    def __init__(self, structure: Structure) -> None:
        super().__init__()
        structure.require("argmax")
        self.structure = structure

    def extra_repr(self) -> str:
        return repr(self.structure)

    def forward(self, theta: Any, lengths: Any = None) -> Any:
        """The vertices for scores ``(*batch, *shape)``."""
        batch = pack(self.structure, theta, lengths)
        found = as_tensor(self.structure.argmax(batch.rows(numbers(batch.scores))), batch.scores)
        made: Tensor = _Constant.apply(batch.scores, found)
        return batch.restore(made)
