"""Pages of Meta-Language."""

from gpicljax.systems.meta_language.figures.text_page import draw_language

__all__ = ["draw_language"]
