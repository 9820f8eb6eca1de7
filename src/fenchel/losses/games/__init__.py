"""The zero-sum games behind adversarial losses, a file per pair of structure and cost."""

from __future__ import annotations

from .base import Equilibrium, Game, find_game

__all__ = ["Equilibrium", "Game", "find_game"]
