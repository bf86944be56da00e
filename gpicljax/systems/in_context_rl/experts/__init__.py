"""Programs that need no training: one plans from counts, one sweeps dark rooms."""

from gpicljax.systems.in_context_rl.experts.planning import PRESUMPTIONS, Presumptions, planner
from gpicljax.systems.in_context_rl.experts.sweeping import sweep

__all__ = ["PRESUMPTIONS", "Presumptions", "planner", "sweep"]
