"""Measures of what models learn of a language, beside predictors that need no training."""

from gpicljax.systems.meta_language.measures.nulls import adaptive_ngram

__all__ = ["adaptive_ngram"]
