"""A text is drawn once for each reader, and its tokens lead to their steps."""

import re

import numpy as np
import pytest
from browser import browse, in_browser

from gpicljax.viz.episode_page import episode_page
from gpicljax.viz.text import text_stage

TOKENS, NATS = [0, 1, 2, 1], {"one": [0.0, np.log(4), 0.1], "<two>": [3.0, 3.0, 3.0]}


def test_readers_and_text_belong_together():
    with pytest.raises(ValueError, match="one: got .* accepted"):
        text_stage(TOKENS, {"one": [0.0]}, 4)


@in_browser
def test_tokens_are_as_dark_as_they_surprised(tmp_path):
    page = episode_page(title="t", words=["w"] * 4, stage=text_stage(TOKENS, NATS, 4))
    script = """
      const texts = [...document.querySelectorAll(".text")];
      const alpha = (sign) => /([\\d.]+)%?\\)?$/.exec(getComputedStyle(sign).backgroundColor)[0];
      say(texts.map((text) => text.textContent).join(","));
      say(new Set([...texts[1].children].slice(1).map(alpha)).size);
      say(alpha(texts[0].children[2]) === alpha(texts[1].children[2]));
      say(alpha(texts[0].children[1]) === alpha(texts[0].children[2]));
      texts[0].children[2].click();
      say(document.body.dataset.step + " " + texts[1].children[2].className);
      say(document.getElementById("text-box").innerText.includes("<two>: 3.00 nats a token"));
    """
    dom = browse(page, tmp_path, script)
    said = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)[1].strip().split("\n")
    assert said == ["abcb,abcb", "1", "true", "false", "2 now", "true"]
