"""Language models read an agent's mind: what they are told, what they are asked, what they say."""

from gpicljax.llm.mental_modelling.prompts import (
    QuestionSettings,
    answer_in,
    question_messages,
    question_text,
    system_text,
)
from gpicljax.llm.mental_modelling.session import LanguageAnswers, ask_questions
from gpicljax.llm.mental_modelling.tasks import TASKS, TaskText, task_text

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
