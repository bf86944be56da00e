"""Adapters to and from other libraries' interfaces, one file each.

Each loads its library when first used.

| function | gives | for |
|---|---|---|
| `to_gymnax` | gymnax's interface, 5- or 6-valued `step` | rejax, gymnax's wrappers |
| `to_gymnasium` | `gymnasium.Env` | plain Python loops, Gymnasium's wrappers |
| `to_gymnasium_vector` | `gymnasium.vector.VectorEnv` | batched Python loops |
| `from_gymnasium` | a batch for `rollout.host_play` | a user's own `gymnasium.Env` |
| `to_jaxmarl` | `jaxmarl`'s `MultiAgentEnv` | JaxMARL's baselines and wrappers |

`pip install "gpicljax[interop]"` brings Gymnasium, `"gpicljax[gymnax]"` gymnax, rejax and JaxMARL.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from gpicljax.interop.gymnasium import to_gymnasium
    from gpicljax.interop.gymnasium_host import from_gymnasium
    from gpicljax.interop.gymnasium_vector import to_gymnasium_vector
    from gpicljax.interop.gymnax import to_gymnax
    from gpicljax.interop.jaxmarl import to_jaxmarl

_FROM = {
    "gymnasium": ["to_gymnasium"],
    "gymnasium_host": ["from_gymnasium"],
    "gymnasium_vector": ["to_gymnasium_vector"],
    "gymnax": ["to_gymnax"],
    "jaxmarl": ["to_jaxmarl"],
}
__all__ = ["from_gymnasium", "to_gymnasium", "to_gymnasium_vector", "to_gymnax", "to_jaxmarl"]
__getattr__, __dir__, _ = lazy_loader.attach(__name__, submod_attrs=_FROM)
