"""Palette, label placement and the writing of figures."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from gpicljax.viz import save_figure, style


def test_importing_viz_loads_no_matplotlib_and_drawing_no_pyplot(tmp_path):
    code = (
        "import sys, gpicljax.viz as v\n"
        "assert 'matplotlib' not in sys.modules, 'imported too early'\n"
        f"v.save_figure(v.results_bars(['a'], [.6], [.5], [.7]), {str(tmp_path / 'a.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_palette_is_distinct_also_without_colour():
    assert len(set(style.PALETTE)) == len(style.PALETTE)
    assert style.colours(3) == style.PALETTE[:3]
    many = style.colours(30)
    assert len(set(many)) == 30


@pytest.mark.parametrize("count", [1, 6, 10, 20])
def test_ink_reads_on_every_colour(count):
    def luminance(colour):
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.03928, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    for hue in style.colours(count):
        a, b = sorted([luminance(hue), luminance(style.text_colour(hue))])
        assert (b + 0.05) / (a + 0.05) >= 2.8


def test_spread_keeps_what_fits_and_parts_what_does_not():
    np.testing.assert_allclose(style.spread([0.9, 0.1, 0.5], 0.1, 0, 1), [0.9, 0.1, 0.5])
    np.testing.assert_allclose(style.spread([0.5, 0.5], 0.1, 0, 1), [0.45, 0.55])
    np.testing.assert_allclose(style.spread([0.5, 0.52, 0.51], 0.1, 0, 1), [0.41, 0.61, 0.51])
    np.testing.assert_allclose(style.spread([0.0, 0.01], 0.1, 0, 1), [0.0, 0.1])
    np.testing.assert_allclose(style.spread([1.0, 0.99], 0.1, 0, 1), [1.0, 0.9])
    assert style.spread([], 0.1, 0, 1).shape == (0,)


def test_spread_invariants_on_random_levels():
    rng = np.random.default_rng(0)
    for count, gap in itertools.product((2, 5, 9), (0.02, 0.1, 0.3)):
        levels = rng.random(count)
        placed = style.spread(levels, gap, 0.0, 1.0)
        ordered = placed[np.argsort(levels)]
        assert (np.diff(ordered) >= min(gap, 1 / (count - 1)) - 1e-12).all()
        assert placed.min() >= -1e-12
        assert placed.max() <= 1 + 1e-12


def test_numbers_read_well():
    assert [style.big_number(x) for x in (0, 250_000, 1_250_000, 2e9)] == [
        "0",
        "250 k",
        "1.25 M",
        "2 G",
    ]
    assert style.tick(True)(0.625) == "62.5 %"
    assert style.tick(False)(4.25) == "4.25"
    assert style.tick(False)(-1) == "\N{MINUS SIGN}1"
    assert style.number(0.9284, percent=True) == "92.8 %"
    assert [style.number(x, percent=False) for x in (2.8, 512.0)] == ["2.80", "512"]


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_save_makes_folders_and_leaves_no_other_file(tmp_path, suffix):
    figure = style.new_figure(2, 1)
    figure.add_subplot().plot([0, 1])
    path = save_figure(figure, tmp_path / "a" / "b" / f"c.{suffix}")
    assert path.stat().st_size > 500
    assert [p.name for p in path.parent.iterdir()] == [f"c.{suffix}"]


def test_png_is_written_at_the_stated_resolution(tmp_path):
    path = save_figure(style.new_figure(2, 1), str(tmp_path / "a.png"))
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(header[16:20]) == 288
    assert int.from_bytes(header[20:24]) == 144


def test_a_failed_write_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_text("before")
    figure = style.new_figure(2, 1)

    def full_disk(file, **_):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(figure, "savefig", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save_figure(figure, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_suffix_is_named(tmp_path):
    for name in ("a", "a.doc"):
        with pytest.raises(ValueError, match=r"accepted: a path that ends in .*\.png"):
            save_figure(style.new_figure(2, 1), tmp_path / name)
    assert list(tmp_path.iterdir()) == []
