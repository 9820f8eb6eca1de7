"""Margin losses between classes and grades: baselines from outside the Fenchel-Young family."""
