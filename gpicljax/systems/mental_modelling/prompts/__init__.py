"""Language models read an agent's mind: what they are told, what they are asked, what they say."""

from gpicljax.systems.mental_modelling.prompts.questions import (
    QuestionSettings,
    answer_in,
    question_messages,
    question_text,
    system_text,
)
from gpicljax.systems.mental_modelling.prompts.session import LanguageAnswers, ask_questions
from gpicljax.systems.mental_modelling.prompts.tasks import TASKS, TaskText, task_text

__all__ = [
    "TASKS",
    "LanguageAnswers",
    "QuestionSettings",
    "TaskText",
    "answer_in",
    "ask_questions",
    "question_messages",
    "question_text",
    "system_text",
    "task_text",
]
