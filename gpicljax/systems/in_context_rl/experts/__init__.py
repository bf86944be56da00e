"""Programs that need no training: one plans from counts, one sweeps dark rooms."""

from gpicljax.systems.in_context_rl.experts.planner import planner
from gpicljax.systems.in_context_rl.experts.sweep import sweep

__all__ = ["planner", "sweep"]
