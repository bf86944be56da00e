"""Adapters load their library when they are asked for, and say what is missing."""

import subprocess
import sys

import pytest

THIRD_PARTY = ("gymnasium", "gymnax", "jaxmarl", "rejax")


def run(script):
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_the_adapters_loads_no_other_library():
    script = (
        "import sys, gpicljax, gpicljax.interop;"
        "assert {'to_gymnax', 'to_gymnasium', 'to_gymnasium_vector', 'to_jaxmarl'}"
        " <= set(dir(gpicljax.interop));"
        f"print(*(m for m in {THIRD_PARTY} if m in sys.modules))"
    )
    assert run(script).split() == []


@pytest.mark.parametrize(
    ("function", "package", "extra"),
    [
        ("to_gymnax", "gymnax", "gymnax"),
        ("to_gymnasium", "gymnasium", "interop"),
        ("to_gymnasium_vector", "gymnasium", "interop"),
        ("to_jaxmarl", "jaxmarl", "gymnax"),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_brings_it(function, package, extra):
    script = f"""
import sys
sys.modules[{package!r}] = None
try:
    from gpicljax.interop import {function}
except ImportError as error:
    print(error)
"""
    said = run(script)
    assert f"{package} is not installed" in said
    assert f'pip install "gpicljax[{extra}]"' in said


def test_an_unknown_adapter_is_an_attribute_error():
    import gpicljax.interop

    with pytest.raises(AttributeError, match="to_nonsense"):
        gpicljax.interop.to_nonsense  # noqa: B018
