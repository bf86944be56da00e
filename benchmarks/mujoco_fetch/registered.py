"""Registers Fetch on MuJoCo: `MuJoCoFetchPush-v4`, `MuJoCoFetchSlide-v4` and so on.

python experiments/train_agent.py --env benchmarks.mujoco_fetch.registered:MuJoCoFetchPush-v4
"""

from gpicljax.registration import register

for _name, _attribute in ("Push", "push"), ("Slide", "slide"), ("PickAndPlace", "pick_and_place"):
    register(f"MuJoCoFetch{_name}-v4", f"benchmarks.mujoco_fetch.reference:{_attribute}")
