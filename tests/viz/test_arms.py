"""The page of a bandit's trial has a row of actions for each arm."""

import json
import re

import pytest
from browser import browse, in_browser

from gpicljax.viz.arms import arms_stage
from gpicljax.viz.episode_page import episode_page

PULLED, PAID, MEANS = [0, 2, 2, 1, 2, 2], [0.0, 1.0, 1.0, 0.0, 0.0, 1.0], [0.25, 0.5, 0.75]


def page(**changes):
    stage = arms_stage(**{"actions": PULLED, "rewards": PAID, "arms": 3, "means": MEANS} | changes)
    return episode_page(title="Arms", words=["a moment"] * 7, rewards=PAID, stage=stage)


def test_actions_payments_and_means_are_in_the_page():
    text = page()
    told = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert told["arms"] == {"count": 3, "pulled": PULLED, "paid": PAID, "means": MEANS}
    assert not re.search(r"https?://|\bsrc=|\bhref=|url\(|@import", text)


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": 2, "means": None},
        {"rewards": PAID[1:]},
        {"means": MEANS[1:]},
        {"actions": [PULLED]},
    ],
)
def test_what_does_not_belong_together_is_refused(changes):
    with pytest.raises(ValueError, match="accepted"):
        page(**changes)


@in_browser
@pytest.mark.parametrize("means", [MEANS, None])
def test_marks_are_coloured_by_what_was_paid(means, tmp_path):
    script = """
      const text = (id) => document.getElementById(id).textContent;
      const box = $("arms").getBoundingClientRect();
      // The pixel of an action's mark, at a height that all marks have.
      const pixel = (t, arm) => {
        const ratio = $("arms").width / box.width;
        const at = [NAME + (t + 0.6) * column(box.width), TOP + ROW * (arm + 0.8)];
        const place = at.map((x) => Math.round(x * ratio));
        return [...$("arms").getContext("2d").getImageData(...place, 1, 1).data].slice(0, 3);
      };
      const bluer = ([r, , b]) => (b > r ? "blue" : "orange");
      show(6);
      say([0, 1, 2, 3, 4, 5].map((t) => bluer(pixel(t, data.arms.pulled[t]))));
      say(JSON.stringify(pixel(0, 1)) === JSON.stringify(pixel(1, 1)));
      say([text("best"), text("regret"), $("best-box").hidden, $("means-legend").hidden]);
      const x = box.left + NAME + 3.5 * column(box.width);
      $("arms").dispatchEvent(new MouseEvent("click", { clientX: x, clientY: box.top + 20 }));
      say([document.body.dataset.step, text("best"), text("regret")]);
    """
    dom = browse(page(means=means), tmp_path, script)
    said = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1].strip().split("\n")
    assert said[0] == "orange,blue,blue,orange,orange,blue" and said[1] == "true"
    if means is None:
        assert said[2:] == [",,true,true", "3,,"]
    else:
        assert said[2:] == ["4 of 6,0.75,false,false", "3,2 of 3,0.50"]
