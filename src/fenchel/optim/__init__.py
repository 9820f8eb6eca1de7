"""Generic minimisers, most of them over convex sets that are known through an oracle.

A maximiser is enough for Euclidean projections (:func:`project_from_argmax`) and for any smooth convex function
(:func:`minimize_over_hull`); a projection is enough for :func:`spectral_projected_gradient` and
:func:`projected_quasi_newton`, and projections onto several sets for that onto their intersection
(:func:`project_on_intersection`). All of these measure their error and return it. :func:`feedback_arc_set` orders items.
"""

from .active_set import ActiveSetResult, Support, project_from_argmax
from .admm import IntersectionResult, project_on_intersection
from .feedback_arc_set import Ordering, feedback_arc_set
from .frank_wolfe import HullResult, minimize_over_hull
from .quasi_newton import ProjectedResult, projected_quasi_newton, spectral_projected_gradient

__all__ = [
    "ActiveSetResult",
    "HullResult",
    "IntersectionResult",
    "Ordering",
    "ProjectedResult",
    "Support",
    "feedback_arc_set",
    "minimize_over_hull",
    "project_from_argmax",
    "project_on_intersection",
    "projected_quasi_newton",
    "spectral_projected_gradient",
]
