"""Mental modelling: ten thousand queries are built, answered by all array rules, and scored."""

import numpy as np
import pytest

from gpicljax.spaces import Discrete
from gpicljax.systems.mental_modelling.data.episodes import episodes_from_arrays
from gpicljax.systems.mental_modelling.measures.baselines import baseline_answers
from gpicljax.systems.mental_modelling.measures.questions import (
    QUESTIONS,
    build_queries,
    pick_queries,
)
from gpicljax.systems.mental_modelling.measures.scoring import score_answers


@pytest.mark.parametrize("history", [3, 20, 40])
def test_ten_thousand_queries(benchmark, history):
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.normal(size=(48, 260, 8)), axis=1)
    actions = rng.integers(0, 4, (48, 260))
    lander = {"environment": "LunarLander-v3", "action_space": Discrete(4), "agent": "PPO"}
    episodes = episodes_from_arrays([*states], [*actions], [*np.ones((48, 260))], **lander)

    def everything():
        count = 0
        for question in QUESTIONS:
            queries = pick_queries(build_queries(episodes, question, history=history), 2_000)
            for answers in baseline_answers(queries).values():
                score_answers(queries, answers)
            count += len(queries.truth)
        return count

    assert benchmark.pedantic(everything, rounds=3, warmup_rounds=0) == 10_000
