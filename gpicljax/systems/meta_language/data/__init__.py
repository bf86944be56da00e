"""Natural text and texts with mistakes as languages to be learnt in context."""

from gpicljax.systems.meta_language.data.text import SymbolMap, text_windows

__all__ = [
    "SymbolMap",
    "text_windows",
]
