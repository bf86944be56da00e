"""Figures of mental modelling, and the sheet on which replies are judged, in a browser."""

import dataclasses
import json
import re

import numpy as np
import pytest
from browser import browse, in_browser

from gpicljax.storage import SavedError
from gpicljax.systems.mental_modelling.data.episodes import episode_from_actions
from gpicljax.systems.mental_modelling.figures.curves import (
    amounts_figure,
    elements_figure,
    grouped_bars,
    history_figure,
    mean_elements,
)
from gpicljax.systems.mental_modelling.figures.review import (
    Reply,
    agreement_figure,
    errors_figure,
    review_page,
)
from gpicljax.systems.mental_modelling.measures.baselines import baseline_answers
from gpicljax.systems.mental_modelling.measures.published import ERRORS
from gpicljax.systems.mental_modelling.measures.questions import build_queries
from gpicljax.systems.mental_modelling.measures.results import result_row
from gpicljax.systems.mental_modelling.measures.reviews import compare_judgements, load_review

REPLIES = [
    Reply("Which?", "Left. </script><b>", True, "step 3"),
    Reply("Which?", "Right.", False),
    Reply("Which?", "None.", True),
]


def walk_rows():
    rng = np.random.default_rng(0)
    walk = episode_from_actions(rng.integers(0, 3, 60), rng.normal(size=(60, 2)))
    return [
        result_row(queries, name, answers)
        for question in ("next_action", "next_state")
        for history in (0, 1, 5)
        for queries in [build_queries(walk, question, history=history, first=5)]
        for name, answers in baseline_answers(queries).items()
    ]


def test_leads_by_amount_are_means_over_readers():
    cells = [
        {"kinds": kinds, "agents": agents, "lead": lead * agents}
        for kinds, agents in ((1, 2), (1, 4), (2, 4))
        for lead in (0.01, 0.03)
    ]
    (axes,) = amounts_figure({"Walk-v0": cells}).axes
    means = {
        line.get_label(): line.get_ydata() for line in axes.lines if "kinds" in line.get_label()
    }
    np.testing.assert_allclose(means["kinds: 1"], [0.04, 0.08])
    np.testing.assert_allclose(means["kinds: 2"], [0.08])


def test_lines_are_the_rows():
    rows = walk_rows()
    levels = {"next_action": ("paper", 0.9)}
    figure = history_figure(rows, ["copy last", "ridge regression"], levels=levels, title="Walk")
    first, second = figure.axes
    assert [axes.get_title("left") for axes in (first, second)] == ["next action", "next state"]
    copied = [
        row.accuracy for row in rows if (row.question, row.answerer) == ("next_action", "copy last")
    ]
    assert first.lines[0].get_ydata().tolist() == copied
    assert [text.get_text() for text in first.get_xticklabels()] == ["0", "1", "5"]
    states = [row for row in rows if row.question == "next_state"]
    elements = elements_figure(states, answerers=["ridge regression"])
    ridge = [
        row.elements[1]
        for row in rows
        if (row.question, row.answerer) == ("next_state", "ridge regression")
    ]
    assert elements.axes[1].lines[0].get_ydata().tolist() == ridge
    groups = mean_elements(states)
    assert groups["1"]["ridge regression"] == pytest.approx(np.mean(ridge))
    assert len(grouped_bars(groups).axes[0].patches) == 2 * 6
    with pytest.raises(ValueError, match="answerers: got"):
        history_figure(rows, ["nobody"])
    with pytest.raises(ValueError, match="groups: got"):
        grouped_bars({})


@in_browser
def test_a_sheet_counts_what_is_ticked(tmp_path):
    text = review_page("A <sheet>", "tiny", REPLIES)
    assert "A &lt;sheet&gt;" in text and text.count("</script>") == 2 and "{{" not in text
    assert "default-src 'none'" in text
    script = """
      const boxes = [...document.querySelectorAll("article")];
      const tick = (n, kind, which) =>
        boxes[n].querySelectorAll(`input[type=${kind}]`)[which].click();
      const text = (id) => document.getElementById(id).textContent;
      say("first " + text("judged") + "|" + text("manual") + "|" + text("kappa"));
      tick(0, "radio", 0); tick(1, "radio", 0); tick(2, "radio", 0);
      tick(1, "radio", 1); tick(0, "checkbox", 4); tick(1, "checkbox", 4); tick(1, "checkbox", 0);
      tick(1, "checkbox", 0);
      say("then " + ["judged", "manual", "automatic", "agree", "kappa"].map(text).join("|"));
      const rows = [...document.querySelectorAll("#counts tr")];
      say("counts " + rows.map((r) => r.cells[1].textContent).join(","));
      say("reply " + boxes[0].querySelectorAll("pre")[1].textContent);
      document.getElementById("judge").value = "me";
      say("saved " + JSON.stringify(review()));
    """
    dom = browse(text, tmp_path, script)
    lines = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1].strip().split("\n")
    lines = [line.replace("&lt;", "<").replace("&gt;", ">") for line in lines]
    assert lines[0] == "first 0 of 3|\N{EN DASH}|\N{EN DASH}"
    assert lines[1] == "then 3 of 3|67 %|67 %|100 %|1.00"
    assert lines[2] == "counts 0,0,0,0,2,0"
    assert lines[3] == "reply Left. </script><b>"
    file = tmp_path / "review.json"
    file.write_text(lines[4].removeprefix("saved "))
    review = load_review(file)
    assert review.judge == "me" and review.right.tolist() == [1, 0, 1]
    assert review.error_counts == (0, 0, 0, 0, 2, 0)
    assert len(errors_figure([review]).axes[0].get_xticks()) == len(ERRORS)
    second_review = dataclasses.replace(review, judge="you")
    assert agreement_figure([review, second_review]).axes


def test_reviews_are_compared_and_damaged_ones_named(tmp_path):
    assert compare_judgements([1, 0, np.nan], [1, 1, 0])[:2] == (2, 0.5)
    assert (
        np.isnan(compare_judgements([1, 1], [1, 1]).kappa)
        and compare_judgements([np.nan], [1]).replies == 0
    )
    with pytest.raises(ValueError, match="replies: got 0"):
        review_page("t", "m", [])
    file = tmp_path / "review.json"
    item = {"right": True, "automatic": True, "errors": []}
    whole = {"format": 2, "sheet": "s", "model": "m", "judge": "j", "items": [item]}
    for change in (
        {"format": 1},
        {"items": []},
        {"items": [item | {"errors": ["spelling"]}]},
        {"items": [item | {"right": "yes"}]},
        {"items": [{}]},
    ):
        file.write_text(json.dumps(whole | change))
        with pytest.raises(SavedError, match=r"review.json is damaged or no review"):
            load_review(file)
    file.write_text("{")
    with pytest.raises(SavedError, match=r"review.json is damaged"):
        load_review(file)
