"""Variants of a test of which some run always and the others as slow tests."""

import pytest

from gpicljax import agents

# The catalogue's own: experiments that other tests import register more.
ALGORITHMS = tuple(agents.CATALOGUE)


def daily(always, cases):
    """`cases` as parameters of a test, each one slow that is not in `always`."""
    strangers = [case for case in always if case not in cases]
    assert not strangers, strangers
    slow = pytest.mark.slow
    return [case if case in always else pytest.param(case, marks=slow) for case in cases]
