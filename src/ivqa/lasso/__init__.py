"""The certified LASSO solver: arrays in, arrays out."""

from ivqa.lasso.certificate import TOLERANCE
from ivqa.lasso.ranking import OnUncertified, Ranking, UncertifiedError
from ivqa.lasso.solver import LassoSolver

__all__ = ["TOLERANCE", "LassoSolver", "OnUncertified", "Ranking", "UncertifiedError"]
