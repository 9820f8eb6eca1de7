"""Timings of fenchel beside other libraries; ``make bench`` runs them all."""
