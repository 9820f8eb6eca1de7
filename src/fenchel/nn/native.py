"""Closed forms in PyTorch itself: they stay on the device of their scores, and are differentiated by it to any order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._core.errors import InvalidInput
from ..structures.base import Structure
from ..structures.cube import Cube
from ..structures.order_simplex import OrderSimplex
from ..structures.simplex import Simplex
from .batches import numbers

__all__ = ["cut_on_device", "has_native", "omega", "pool_on_device", "prediction", "value"]


def has_native(structure: Structure) -> bool:
    """Whether the structure's predictions are closed forms here."""
    return type(structure) in (Simplex, Cube, OrderSimplex)


def prediction(structure: Structure, psi: str, theta: Tensor) -> Tensor:
    """∇Ω*(θ) of rows, differentiable."""
    if isinstance(structure, Simplex):
        return _simplex_projection(structure, theta) if psi == "euclidean" else torch.softmax(_possible(theta), dim=-1)
    if isinstance(structure, Cube):
        if psi == "gibbs":
            return torch.sigmoid(theta)
        return theta.clamp(0, 1) if psi == "euclidean" else torch.exp(torch.clamp(theta - 1, max=0))
    if psi == "gibbs":
        return _grades(torch.softmax(_possible(_potentials(theta)), dim=-1))
    pooled = _isotonic(structure, theta)
    return pooled.clamp(0, 1) if psi == "euclidean" else torch.exp(torch.clamp(pooled - 1, max=0))


def omega(structure: Structure, psi: str, mu: Tensor) -> Tensor:
    """Ω(μ) of rows."""
    if psi == "euclidean":
        return 0.5 * (mu * mu).sum(dim=-1)
    if psi == "gibbs" and isinstance(structure, Cube):
        return _negative_entropy(mu) + _negative_entropy(1 - mu)
    if psi == "gibbs" and isinstance(structure, OrderSimplex):
        ones, zeros = torch.ones_like(mu[:, :1]), torch.zeros_like(mu[:, :1])
        return _negative_entropy(-torch.diff(torch.cat([ones, mu, zeros], dim=1) if mu.shape[1] else ones, dim=1))
    return _negative_entropy(mu)


def value(structure: Structure, psi: str, theta: Tensor, mu: Tensor, v: Tensor) -> Tensor:
    """Ω*(θ) + Ω(v) − ⟨θ, v⟩ of rows, where μ is the prediction at θ."""
    if isinstance(structure, Cube) and psi == "gibbs":  # bit by bit, without a difference of large numbers
        logs = torch.nn.functional.logsigmoid
        bits = torch.where(v > 0, v * logs(theta), 0) + torch.where(v < 1, (1 - v) * logs(-theta), 0)
        return omega(structure, psi, v) - bits.sum(dim=-1)
    if isinstance(structure, Simplex):
        theta = theta - theta.max(dim=-1, keepdim=True).values  # what no point can see, before large numbers meet
    finite = torch.where(torch.isneginf(theta), torch.zeros_like(theta), theta)
    inside = omega(structure, psi, v) - (finite * v).sum(dim=-1)
    inside = torch.where((torch.isneginf(theta) & (v != 0)).any(dim=-1), torch.inf, inside)
    if psi == "gibbs" or (psi == "kl" and isinstance(structure, Simplex)):
        return (_log_partition(structure, theta) + inside).clamp(min=0)
    return ((finite * mu).sum(dim=-1) - omega(structure, psi, mu) + inside).clamp(min=0)


def _log_partition(structure: Structure, theta: Tensor) -> Tensor:
    return torch.logsumexp(_potentials(theta) if isinstance(structure, OrderSimplex) else theta, dim=-1)


def _negative_entropy(mu: Tensor) -> Tensor:
    return -torch.special.entr(mu.clamp(min=0)).sum(dim=-1)


def _potentials(theta: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(theta[:, :1]) if theta.shape[1] else theta.new_zeros(len(theta), 1),
                      torch.cumsum(theta, dim=1)], dim=1)  # fmt: skip


def _grades(p: Tensor) -> Tensor:
    """Thresholds from the distribution over grades."""
    return p[:, 1:].flip(1).cumsum(dim=1).flip(1)


def _possible(theta: Tensor) -> Tensor:
    impossible = torch.isneginf(theta).all(dim=-1)
    if impossible.any():
        raise InvalidInput(f"scores forbid every output (all are -inf) at sample {int(impossible.nonzero()[0, 0])}")
    return theta


# -- projections that pool or cut: a forward pass, and the linear map of the active face -------------------------------


class _Cut(torch.autograd.Function):
    """The Euclidean projection on the simplex: the support keeps its sum."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, structure: Simplex) -> Tensor:
        if theta.device.type == "cpu":
            mu = torch.from_numpy(structure.project(numbers(theta)))
        else:
            mu = cut_on_device(theta)
        ctx.save_for_backward(mu > 0)
        return mu

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (free,) = ctx.saved_tensors
        g = grads[0] * free
        return g - free * (g.sum(dim=-1, keepdim=True) / free.sum(dim=-1, keepdim=True)), None


def _simplex_projection(structure: Simplex, theta: Tensor) -> Tensor:
    found: Tensor = _Cut.apply(theta, structure)
    return found


def cut_on_device(theta: Tensor) -> Tensor:
    """By a sort, in operations of PyTorch alone. O(k log k) a row."""
    _possible(theta)
    shifted = theta - theta.max(dim=-1, keepdim=True).values
    top = torch.sort(shifted, dim=-1, descending=True).values
    count = torch.arange(1, theta.shape[-1] + 1, device=theta.device, dtype=theta.dtype)
    sums = torch.cumsum(top.clamp(min=-2), dim=-1) - 1  # what is more than one below the largest is never used
    size = (count * top > sums).sum(dim=-1, keepdim=True)
    threshold = sums.gather(-1, size - 1) / size
    return (shifted - threshold).clamp(min=0)


class _Pool(torch.autograd.Function):
    """Isotonic regression, descending: each pooled block moves as one."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, structure: OrderSimplex) -> Tensor:
        if theta.device.type == "cpu":
            pooled = torch.from_numpy(structure._isotonic(numbers(theta)))
        else:
            pooled = pool_on_device(theta)
        starts = torch.ones_like(pooled, dtype=torch.bool)
        starts[:, 1:] = pooled[:, 1:] != pooled[:, :-1]
        ctx.save_for_backward(starts.reshape(-1).cumsum(0) - 1)
        return pooled

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (block,) = ctx.saved_tensors
        flat = grads[0].reshape(-1)
        n = int(block[-1]) + 1 if len(block) else 0
        totals = flat.new_zeros(n).index_add(0, block, flat)
        counts = flat.new_zeros(n).index_add(0, block, torch.ones_like(flat))
        return (totals / counts)[block].reshape(grads[0].shape), None


def _isotonic(structure: Structure, theta: Tensor) -> Tensor:
    found: Tensor = _Pool.apply(theta, structure)
    return found


def pool_on_device(theta: Tensor) -> Tensor:
    """μ_i = min over j ≤ i of max over k ≥ i of the mean of θ_j ... θ_k, all pairs at once. O(grades²) a row."""
    n = theta.shape[1]
    sums = torch.cat([theta.new_zeros(len(theta), 1), theta.cumsum(dim=1)], dim=1)
    at = torch.arange(n, device=theta.device)
    length = at[None, :] - at[:, None] + 1
    means = (sums[:, None, 1:] - sums[:, :-1, None]) / length.clamp(min=1)  # entry (j, k)
    means = means.masked_fill(length < 1, -torch.inf)
    best = means.flip(2).cummax(dim=2).values.flip(2)  # over k' ≥ k
    best = best.masked_fill(length < 1, torch.inf)
    return torch.diagonal(best.cummin(dim=1).values, dim1=1, dim2=2)
