"""Language models listen in Meta-Referential Games: Table 4, with what it lacks.

    python experiments/meta_rg_language_models.py --preset table4 \
        --llm.endpoint http://127.0.0.1:8080/v1 --llm.model NAME

For one and four object-centric samples and one and two shots, five seeds of 64 episodes each: the
accuracy of zero-shot compositional tests, balanced accuracy, the share of "same", answers that were
not valid, and the control that always says "same". Answers are bounded by a schema, and every
question is asked again with the answers in the other order. Replies are kept; a run that is started
again with the same flags asks for what it lacks.
"""

__all__: list[str] = []
