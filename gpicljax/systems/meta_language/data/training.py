"""What language models are trained on: texts of random languages, and of random words."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from gpicljax.agents.sequence import Sequences
from gpicljax.systems.meta_language.data.lexicon import sample_lexicon_text
from gpicljax.systems.meta_language.env.meta_language import MetaLanguage, Params, Task
from gpicljax.task_set import TaskSet


@dataclasses.dataclass(frozen=True)
class TrainingTexts:
    """A distribution over texts to learn from.

    Attributes:
      env: the languages.
      context: tokens to predict in a text.
      tasks: number of different languages; 0 for a new one in every text.
      tasks_key: the key of these languages.
      other_languages: share of the languages that are of other kinds: lambda anywhere in 1 .. 6,
        and half of them with equal weights of the latest tokens.
      lexicons: share of the texts that are made of random words instead.
    """

    env: MetaLanguage
    context: int
    tasks: int
    tasks_key: jax.Array
    other_languages: float = 0.0
    lexicons: float = 0.0

    def known_languages(self, keys: jax.Array) -> jax.Array:
        """Returns the keys of languages drawn from the finite set that is trained on."""
        every = TaskSet.create(self.tasks_key, self.tasks).keys
        return every[jax.vmap(lambda key: jax.random.randint(key, (), 0, self.tasks))(keys)]

    def sample(self, keys: jax.Array, params: Params) -> Sequences:
        """Draws for each key a sequence of a language of its own, or of a finite set."""
        task_keys, keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        if self.tasks:
            task_keys = self.known_languages(task_keys)
        tasks = jax.vmap(self.env.sample_task, (0, None))(task_keys, params)
        if self.other_languages:
            # Without the oldest token, which has no influence there, tables have the same shape.
            equal = MetaLanguage(max_order=self.env.num_slots, slot_weights="uniform")
            tasks = jax.vmap(functools.partial(self.vary_language, equal, params))(task_keys, tasks)
        tokens = self.env.sample_sequences(keys, tasks, self.context)[:, 0]
        if self.lexicons:
            tokens = jax.vmap(self.replace_by_lexicon)(task_keys, tokens)
        tokens = tokens.T
        return Sequences(tokens[:-1], None, tokens[1:])

    def vary_language(
        self, equal: MetaLanguage, params: Params, key: jax.Array, task: Task
    ) -> Task:
        """Returns the language, or one of another kind; see `other_languages`."""
        key = jax.random.fold_in(key, 1)
        chosen_key, equal_key, scale_key, task_key = jax.random.split(key, 4)
        most = jnp.minimum(params.max_order, equal.max_order)
        low = jnp.minimum(params.min_order, most)
        other = equal.sample_task(
            task_key, dataclasses.replace(params, min_order=low, max_order=most)
        )
        is_chosen = jax.random.bernoulli(chosen_key, self.other_languages)
        is_equal = is_chosen & jax.random.bernoulli(equal_key)
        task = jax.tree.map(lambda x, y: jnp.where(is_equal, x, y), other, task)
        scale = jax.random.uniform(scale_key, dtype=task.scale.dtype, minval=1.0, maxval=6.0)
        return dataclasses.replace(task, scale=jnp.where(is_chosen, scale, task.scale))

    def replace_by_lexicon(self, key: jax.Array, tokens: jax.Array) -> jax.Array:
        """Returns the tokens, or as many of a text of random words; see `lexicons`."""
        chosen_key, key = jax.random.split(jax.random.fold_in(key, 2))
        text = sample_lexicon_text(key, self.context, self.env.vocab_size)
        return jnp.where(jax.random.bernoulli(chosen_key, self.lexicons), text, tokens)
