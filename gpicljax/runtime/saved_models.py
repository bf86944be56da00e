"""Language models on disk.

```python
model = load_language_model("runs/meta_language/quick/models/seed_0")
logits, _ = model.network.unroll(model.params, None, tokens, None)  # int32[T, B] -> [T, B, V]
```

A folder holds `params.npz`, the arrays, and `model.json`: everything else (see `array_folder`).
A few models come with the package: `shipped_models()` names them, and
`load_language_model(shipped("meta_language_tiny"))` reads one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.checks import unknown
from gpicljax.networks.contract import Network
from gpicljax.networks.language import LanguageModelSettings, language_model
from gpicljax.runtime.config_json import from_json, to_json
from gpicljax.storage.array_folder import SavedError, named, read_folder, restore, write_folder

FORMAT = 1
CARD = "model.json"
SHIPPED = Path(__file__).parents[1] / "models"


class LoadedLanguageModel(NamedTuple):
    """A language model from disk.

    Attributes:
      settings: its kind and size.
      network: from tokens to logits.
      params: its parameters.
      info: the whole of `model.json`.
    """

    settings: LanguageModelSettings
    network: Network
    params: Any
    info: dict[str, Any]


def save_language_model(
    folder: str | Path,
    settings: LanguageModelSettings,
    params: Any,
    *,
    vocab_size: int,
    context: int,
    **about: Any,
) -> None:
    """Writes a model so that `load_language_model` needs nothing but the folder.

    Args:
      folder: made if absent; a model in it is replaced.
      settings: its kind and size.
      params: its parameters, on the host or one device.
      vocab_size: V.
      context: tokens of the sequences that it was trained on.
      **about: whatever else a reader should know (training, evaluation, provenance), for JSON.

    Raises:
      OSError: if a file cannot be written.
      SavedError: if the parameters are not those of such a model.
    """
    folder = Path(folder)
    arrays = named("params", params)
    restore(folder, arrays, "params", _like(settings, vocab_size))
    card = {
        "format": FORMAT,
        "settings": to_json(settings),
        "vocab_size": vocab_size,
        "context": context,
        "parameters": sum(array.size for array in arrays.values()),
        **about,
    }
    write_folder(folder, CARD, card, arrays)


def load_language_model(
    folder: str | Path,
    capacity: int | None = None,
    settings: LanguageModelSettings | None = None,
) -> LoadedLanguageModel:
    """Reads a model.

    Args:
      folder: what `save_language_model` wrote.
      capacity: tokens that a transformer's cache is to hold; those it was trained on by default.
      settings: those that the model is expected to have; any if None.

    Raises:
      SavedError: if a file is missing or damaged, or the model is another one than expected.
    """
    folder = Path(folder)
    card, arrays = read_folder(folder, CARD, FORMAT, "saved language model")
    try:
        found = from_json(LanguageModelSettings, card["settings"])
        vocab_size, context = card["vocab_size"], card["context"]
    except (KeyError, TypeError, ValueError) as error:
        raise SavedError(f"{folder / CARD}: {error}") from error
    if settings is not None and settings != found:
        raise SavedError(f"{folder} is a saved model of another size: {found}, not {settings}")
    params = restore(folder, arrays, "params", _like(found, vocab_size))
    network = language_model(found, vocab_size, capacity or context)
    return LoadedLanguageModel(found, network, params, card)


def shipped_models() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(card.parent.name for card in SHIPPED.glob(f"*/{CARD}"))


def shipped(name: str) -> Path:
    """The folder of a model that comes with the package.

    `meta_language_tiny` is a transformer of 303,008 parameters that learns random languages in its
    context, trained by `python experiments/meta_language.py --preset cpu-tiny`.

    Raises:
      ValueError: for an unknown name.
    """
    if name not in shipped_models():
        raise ValueError(unknown("model", name, shipped_models()))
    return SHIPPED / name


def _like(settings: LanguageModelSettings, vocab_size: int) -> Any:
    network = language_model(settings, vocab_size, 1)
    return jax.eval_shape(network.init, jax.random.key(0), jnp.zeros(1, jnp.int32))
