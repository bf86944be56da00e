"""Mental modelling: predictions of an agent by rules, readers and language models.

    python experiments/mental_modelling.py collect
    python experiments/mental_modelling.py
    python experiments/mental_modelling.py --llm.endpoint http://127.0.0.1:8080/v1 \\
        --llm.model NAME
    python experiments/mental_modelling.py load a.npz b.npz --env MountainCar-v0 --agent mine \
        --out runs/mental_modelling_data/quick
    python experiments/mental_modelling.py review --run runs/mental_modelling/quick

The first trains agents of several kinds and skills and writes their episodes; `load` reads a user's
own. The second asks what an agent does next, what that leads to, and back, with histories of 0 to
40 steps, and scores all that answer: rules that copy or regress, the task's physics, a transformer
that has read other agents, and a language model, where there is one. `review` makes sheets on which
the language model's replies are judged, and scores them.
"""

__all__: list[str] = []
