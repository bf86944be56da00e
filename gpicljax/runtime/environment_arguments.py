"""The arguments by which a command line names an environment and its distribution over tasks.

```
ID --set NAME=VALUE ... --params NAME=VALUE ... --curriculum FILE --seed N
```
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from gpicljax.checks import check
from gpicljax.environment import Environment
from gpicljax.registration import make
from gpicljax.runs.arguments import user_path, whole_number
from gpicljax.runs.config import assignments


def add_environment_arguments(
    parser: ArgumentParser, example: str, *, needed: bool = True, flag: str | None = None
) -> None:
    """Adds the id, static options, params, a curriculum and a seed to a command line.

    Args:
      parser: of the command line.
      example: an id.
      needed: whether there must be an id.
      flag: by which the id is given; by its place if None.
    """
    help_text = f"a registered id, such as {example}"
    if flag is not None:
        parser.add_argument(flag, dest="env_id", metavar="ID", help=help_text)
    else:
        parser.add_argument("env_id", metavar="ID", nargs=None if needed else "?", help=help_text)
    for flag, help_text in (
        ("--set", "static options"),
        ("--params", "the distribution over tasks"),
    ):
        parser.add_argument(
            flag, nargs="+", action="extend", default=[], metavar="NAME=VALUE", help=help_text
        )
    help_text = "file of a curriculum, for an environment that has curricula"
    parser.add_argument("--curriculum", type=user_path, metavar="FILE", help=help_text)
    parser.add_argument("--seed", type=whole_number, default=0, help="of tasks and episodes")


def make_environment(options: Namespace, **defaults: Any) -> tuple[Environment, Any]:
    """Returns the environment that such arguments name, and its params.

    Args:
      options: with `env_id`, `set` and `params`, and perhaps `curriculum`, as
        `add_environment_arguments` has them read. A curriculum is the param of that name; the
        environment is suited to it, whatever it was set to.
      **defaults: params that hold where the arguments name no others, if the environment has them.

    Raises:
      ValueError: for an unknown id, and for options and params that are not accepted.
    """
    env = make(options.env_id, **assignments("--set", options.set))
    params = assignments("--params", options.params)
    if getattr(options, "curriculum", None) is not None:
        accepted_values = "a curriculum once, by --curriculum or by --params"
        check("curriculum" not in params, "--curriculum", options.curriculum, accepted_values)
        params["curriculum"] = str(options.curriculum)
    fields = getattr(env.default_params, "__dataclass_fields__", ())
    params = {name: x for name, x in defaults.items() if name in fields} | params
    return (env := env.suited_to(**params)), env.make_params(**params)
