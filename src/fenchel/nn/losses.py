"""Every training loss of the library as a PyTorch module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core.errors import IncompatiblePair, InvalidInput
from ..costs.base import Cost
from ..losses.adversarial import Adversarial
from ..losses.base import Loss
from ..losses.fenchel_young import FenchelYoung
from ..losses.margin import Hinge
from ..structures.base import Structure
from . import native
from .batches import Batch, as_tensor, numbers, outputs_of, pack
from .layers import moving_with

__all__ = ["AdversarialLoss", "CRFLoss", "FenchelYoungLoss", "HingeLoss", "StructuredLoss"]

_REDUCTIONS = ("mean", "sum", "none")


class _Value(torch.autograd.Function):
    """A value whose gradient is known, the residual; ``moving`` makes it anew with its derivative, for second ones."""

    @staticmethod
    def forward(
        ctx: Any,
        theta: Tensor,
        value: Tensor,
        residual: Tensor,
        items: Tensor | None,
        moving: Callable[[Tensor], Tensor],
    ) -> Tensor:
        ctx.moving, ctx.items = moving, items
        ctx.save_for_backward(theta, residual)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        theta, residual = ctx.saved_tensors
        if torch.is_grad_enabled():
            residual = ctx.moving(theta)
        g = grads[0].reshape(-1, *(1 for _ in residual.shape[1:])) if ctx.items is None else grads[0][ctx.items]
        return g * residual, None, None, None, None


class _Once(torch.autograd.Function):
    """A residual without a derivative."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, residual: Tensor, name: str) -> Tensor:
        ctx.name = name
        return residual.view_as(residual)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise IncompatiblePair(f"{ctx.name} has no second derivatives; a Fenchel-Young loss does")


class StructuredLoss(torch.nn.Module):
    """Any ``fenchel.losses.Loss`` as a module; the classes below make the common ones.

    ``loss(theta, y)``: scores ``(*batch, *structure.shape)`` and truths as the structure encodes them, whole numbers or
    lists; a floating-point tensor of the scores' shape holds points of the hull instead (soft truths). Families take a list of
    tensors, or padded tensors with ``lengths``, and so do their truths; chains a pair of nodes and edges. The value is
    the loss itself, example by example; its gradient is the prediction less the truth.

    Parameters
    ----------
    loss : fenchel.losses.Loss
        The loss.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to make of the losses of a batch. With weights the mean is weighted, as in ``torch.nn.CrossEntropyLoss``.

    Notes
    -----
    On the CPU arrays cross into the compiled kernels without a copy; from other devices scores are copied to the CPU and
    gradients back, except for simplices, cubes and grades, whose closed forms stay on the device. Half precision is computed
    in float32.

    >>> import torch
    >>> from fenchel.losses import Perceptron
    >>> from fenchel.nn import StructuredLoss
    >>> from fenchel.structures import Simplex
    >>> StructuredLoss(Perceptron(Simplex(2)))(torch.tensor([[1.0, 1.5]]), torch.tensor([0]))
    tensor(0.5000)
    """

    def __init__(self, loss: Loss, *, reduction: str = "mean") -> None:
        super().__init__()
        if not isinstance(loss, Loss):
            raise InvalidInput(f"loss is {loss!r}, expected a fenchel.losses.Loss")
        if reduction not in _REDUCTIONS:
            raise InvalidInput(f"reduction is {reduction!r}, expected one of {', '.join(map(repr, _REDUCTIONS))}")
        self.loss = loss
        self.reduction = reduction

    @property
    def structure(self) -> Structure:
        """What is predicted."""
        return self.loss.structure

    def extra_repr(self) -> str:
        return f"{self.loss!r}, reduction={self.reduction!r}"

    def forward(self, theta: Any, y: Any, *, lengths: Any = None, weight: Tensor | None = None) -> Tensor:
        """The loss of scores and truths; ``weight`` has a number for each example."""
        batch = pack(self.structure, theta, lengths)
        v = outputs_of(batch, y, lengths)
        values = self._values(batch, v).reshape(batch.shape)
        if weight is not None:
            if tuple(weight.shape) != tuple(batch.shape):
                raise InvalidInput(f"weight has shape {tuple(weight.shape)}, but there are losses of {batch.shape}")
            values = values * weight
        if self.reduction == "none":
            return values
        total = values.sum()
        if self.reduction == "sum":
            return total
        return total / (max(values.numel(), 1) if weight is None else weight.sum())

    def predict(self, theta: Any, lengths: Any = None) -> Any:
        """The outputs that the scores prefer: decoded by argmax, as the structure writes them."""
        batch = pack(self.structure, theta, lengths)
        rows = self.structure.argmax(batch.rows(numbers(batch.scores)))
        outputs = self.structure.decode(rows)
        return outputs if batch.sizes is not None else outputs.reshape(batch.shape + outputs.shape[1:])

    def _values(self, batch: Batch, v: Any) -> Tensor:
        theta, loss = batch.scores, self.loss
        if isinstance(loss, FenchelYoung) and native.has_native(loss.structure):
            return self._native(batch, loss, v)
        value, gradient = loss.value_and_grad(batch.rows(numbers(theta)), v)
        residual = as_tensor(gradient, theta)

        def moving(scores: Tensor) -> Tensor:
            if not isinstance(loss, FenchelYoung):
                made: Tensor = _Once.apply(scores, residual, type(self).__name__)
                return made
            c = loss.multiplier
            moved = moving_with(
                batch, loss.regularizer.name, scores / loss.strength, residual / c, lambda: gradient / c + v
            )
            return c * moved

        items = None
        if batch.sizes is not None:
            items = torch.from_numpy(np.repeat(np.arange(len(batch.sizes)), batch.sizes)).to(theta.device)
        made: Tensor = _Value.apply(theta, as_tensor(value, theta), residual, items, moving)
        return made

    def _native(self, batch: Batch, loss: FenchelYoung, v: Any) -> Tensor:
        psi, structure, c = loss.regularizer.name, loss.structure, loss.multiplier
        truth = as_tensor(v, batch.scores)

        def moving(scores: Tensor) -> Tensor:
            return c * (native.prediction(structure, psi, scores / loss.strength) - truth)

        with torch.no_grad():
            scaled = batch.scores / loss.strength
            mu = native.prediction(structure, psi, scaled)
            value = c * loss.strength * native.value(structure, psi, scaled, mu, truth)
        made: Tensor = _Value.apply(batch.scores, value, c * (mu - truth), None, moving)
        return made


class FenchelYoungLoss(StructuredLoss):
    """The Fenchel-Young loss of a regularizer on a structure: logistic, sparsemax, SparseMAP, CRF, Sinkhorn.

    S(θ; y) = Ω*(θ) + Ω(φ(y)) − ⟨θ, φ(y)⟩ with Ω = strength · Ψ. Its second derivatives are those of the prediction.

    Reference: Blondel, Martins and Niculae, "Learning with Fenchel-Young losses", 2020.

    >>> import torch
    >>> from fenchel.nn import FenchelYoungLoss
    >>> from fenchel.structures import Simplex
    >>> theta = torch.tensor([[1.0, 0.5, -2.0]], requires_grad=True)
    >>> loss = FenchelYoungLoss(Simplex(3), "euclidean")(theta, torch.tensor([0]))
    >>> loss.backward()
    >>> loss.item(), theta.grad
    (0.0625, tensor([[-0.2500,  0.2500,  0.0000]]))
    """

    def __init__(
        self, structure: Structure, regularizer: Any = "euclidean", *, strength: float = 1.0, reduction: str = "mean"
    ) -> None:
        super().__init__(FenchelYoung(structure, regularizer, strength), reduction=reduction)


class CRFLoss(FenchelYoungLoss):
    """Minus the log-probability of the truth under p(y) ∝ exp ⟨θ, φ(y)⟩: a conditional random field on any scores.

    >>> import torch
    >>> from fenchel.nn import CRFLoss
    >>> from fenchel.structures import Chains
    >>> nodes, table = torch.zeros(2, 3, 4), torch.zeros(4, 4)
    >>> CRFLoss(Chains(4))((nodes, table), torch.tensor([[0, 1, 2], [3, 3, 0]]), lengths=[3, 2])  # 2.5 log 4
    tensor(3.4657)
    """

    def __init__(self, structure: Structure, *, reduction: str = "mean") -> None:
        super().__init__(structure, "gibbs", reduction=reduction)


class AdversarialLoss(StructuredLoss):
    """The adversarial loss of a mistake cost: consistent for it, by a zero-sum game; the gradient is the adversary's play.

    Reference: Fathony, Asif, Liu, Bashiri, Xing, Behpour, Zhang and Ziebart, "Consistent robust adversarial prediction
    for general multiclass classification", 2018.

    >>> import torch
    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.nn import AdversarialLoss
    >>> from fenchel.structures import Simplex
    >>> AdversarialLoss(Simplex(3), ZeroOne())(torch.tensor([[1.0, 0.5, -2.0]]), torch.tensor([0]))
    tensor(0.2500)
    """

    def __init__(
        self, structure: Structure, cost: Cost, *, smoothing: float = 0.0, tol: float | None = None,
        max_iter: int | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(Adversarial(structure, cost, smoothing, tol, max_iter), reduction=reduction)


class HingeLoss(StructuredLoss):
    """The structured hinge loss: max over y of cost(y, truth) + ⟨θ, φ(y) − φ(truth)⟩, by an argmax with the cost added.

    Reference: Tsochantaridis, Joachims, Hofmann and Altun, "Large margin methods for structured and interdependent output
    variables", 2005.

    >>> import torch
    >>> from fenchel.costs import Absolute
    >>> from fenchel.nn import HingeLoss
    >>> from fenchel.structures import OrderSimplex
    >>> HingeLoss(OrderSimplex(3), Absolute())(torch.tensor([[0.5, -2.0]]), torch.tensor([0]))
    tensor(1.5000)
    """

    def __init__(self, structure: Structure, cost: Cost, *, reduction: str = "mean") -> None:
        super().__init__(Hinge(structure, cost), reduction=reduction)
