"""The output of highest score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._core.types import Array
from ..losses.base import Output
from .base import Decoder

__all__ = ["MAP"]


@dataclass(frozen=True)
class MAP(Decoder):
    """argmax ⟨θ, φ(y)⟩: the output of highest score, whatever a mistake costs. One argmax.

    >>> from fenchel.decoders import MAP
    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.structures import OrderSimplex
    >>> MAP().decode(FenchelYoung(OrderSimplex(3), "euclidean").output([[0.9, -0.5]]))
    array([1])
    """

    def decode(self, output: Output) -> Any:
        return output.structure.best(output.scores)

    def vertices(self, output: Output) -> Array:
        return output.structure.argmax(output.scores)
