"""Adapters to other libraries' interfaces, one file each; each loads its library when first used.

| function | gives | for |
|---|---|---|
| `to_gymnax` | gymnax's interface, 5- or 6-valued `step` | rejax, purejaxrl, gymnax's wrappers |
| `to_gymnasium` | `gymnasium.Env` | plain Python loops, Stable-Baselines3 |
| `to_gymnasium_vector` | `gymnasium.vector.VectorEnv` | batched Python loops |
| `to_jaxmarl` | `jaxmarl`'s `MultiAgentEnv` | JaxMARL's baselines and wrappers |

The libraries come with `pip install "gpicljax[interop]"`.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from gpicljax.interop.gymnasium import to_gymnasium
    from gpicljax.interop.gymnasium_vector import to_gymnasium_vector
    from gpicljax.interop.gymnax import to_gymnax
    from gpicljax.interop.jaxmarl import to_jaxmarl

__all__ = ["to_gymnasium", "to_gymnasium_vector", "to_gymnax", "to_jaxmarl"]
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__, submod_attrs={name.removeprefix("to_"): [name] for name in __all__}
)
