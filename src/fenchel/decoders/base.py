"""The contract of a decoder."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .._core.types import Array
from ..losses.base import Output
from ..structures.base import Structure

__all__ = ["Decoder"]


class Decoder(ABC):
    """Turns a model's output into answers."""

    @abstractmethod
    def vertices(self, output: Output) -> Array:
        """The answer of each example as a vertex of :meth:`structure_for`."""

    def structure_for(self, output: Output) -> Structure:
        """The structure that answers belong to; by default the one the model was trained on."""
        return output.structure

    def decode(self, output: Output) -> Array:
        """The answers as the user writes them."""
        return self.structure_for(output).decode(self.vertices(output))
