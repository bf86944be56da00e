"""Language models read an agent's mind: what they are told, what they are asked, what they say."""

from gpicljax.systems.mental_modelling.prompts.questions import QuestionSettings, question_messages
from gpicljax.systems.mental_modelling.prompts.session import ask_questions

__all__ = [
    "QuestionSettings",
    "ask_questions",
    "question_messages",
]
