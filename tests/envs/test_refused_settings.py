"""Static options and params that environments refuse, by id; test_conformance has the common ones.

Numbers that are none and horizons below 1 are refused of every environment there.
"""

import pytest

import gpicljax

STATIC = {
    "AnyMDP-v0": [
        ({"max_states": 3}, "max_states"),
        ({"max_actions": 1}, "max_actions"),
        ({"num_observations": 0}, "num_observations"),
        ({"tries": 0}, "tries"),
    ],
    "BernoulliBandit-v0": [
        ({"num_arms": 0}, "num_arms: got 0; accepted: an integer from 1 to 65536")
    ],
    "CliffWalking-v1": [({"max_columns": 1}, "got 1; accepted: an integer from 2 to 512")],
    "ContextualBandit-v0": [({"payoff": "cubic"}, "payoff: got 'cubic'")],
    "DarkRoom-v0": [({"size": 1}, "size: got 1")],
    "FrozenLake-v1": [
        ({"description": ("SF", "FFG")}, "ragged"),
        ({"description": ("FF", "FG")}, "with a start"),
        ({"description": ("SF", "FF")}, "with a goal"),
        ({"description": ("SH", "HG")}, "a way from every start"),
        ({"description": ("SFHS", "FGHF")}, "a way from every start"),
        ({"description": ("SX", "FG")}, "SX.*the letters F, S, H, G"),
        ({"description": ()}, "description"),
        ({"description": ("", "")}, "description"),
        ({"description": (1, 2)}, "description"),
        ({"map_name": "5x5"}, "map_name: got '5x5'.*accepted: 4x4, 8x8"),
        ({"size": 1}, "size: got 1"),
        ({"size": 4, "map_name": "4x4"}, r"\['map_name', 'size'\]; accepted: one of"),
    ],
    "GaussianBandit-v0": [
        ({"num_arms": 0}, "num_arms: got 0; accepted: an integer from 1 to 65536")
    ],
    "InvertedDoublePendulum-v5": [({"version": 3}, "version: got 3; accepted: 4, 5")],
    "KeyToDoor-v0": [({"size": 1}, "size: got 1")],
    "MazeWorld-v0": [
        ({"size": 5}, "size: got 5"),
        ({"max_landmarks": 0}, "max_landmarks: got 0"),
        ({"max_landmarks": 16}, r"max_landmarks: got 16; accepted: an integer from 1 to 15"),
        ({"mode": "navigate"}, "mode: got 'navigate' .did you mean 'navigation'"),
        ({"actions": "discreet"}, "actions: got 'discreet' .did you mean 'discrete'"),
        ({"view": "first-person"}, "view: got 'first-person' .did you mean 'first_person'"),
        ({"view": "privileged"}, "view: got 'privileged'.*; accepted: first_person, local"),
        ({"textures": "defult"}, "did you mean 'default'"),
        ({"resolution": (0, 128)}, "resolution: got .0, 128."),
        ({"resolution": 128}, "resolution: got 128; accepted: .an integer from 1 to 4096, an"),
        ({"resolution": (64.0, 64)}, "an integer from 1"),
        ({"field_of_view": 171}, "field_of_view: got 171"),
        ({"field_of_view": 0.0}, "field_of_view: got 0.0"),
        ({"local_radius": 0}, "local_radius: got 0"),
        ({"rays": 0}, "rays: got 0; accepted: an integer from 1"),
    ],
    "MetaRG-v0": [
        ({"view": "speaker"}, "view: got 'speaker'"),
        ({"rules": "fair"}, "rules: got 'fair'"),
        ({"stimulus": "image"}, "stimulus: got 'image'"),
        ({"speaker": "bosdis"}, "speaker: got 'bosdis'"),
        ({"actions": "all"}, "actions: got 'all'"),
        ({"num_distractors": -1}, "num_distractors: got -1"),
        ({"max_values": 1}, "max_values: got 1"),
        ({"max_shots": 0}, "max_shots: got 0"),
        ({"num_dims": 14}, "max_values: got 5; .*num_dims = 14"),
        ({"vocab_size": 0}, "vocab_size: got 0"),
        ({"num_rounds": 0}, "num_rounds: got 0"),
        ({"descriptive": False}, r"num_distractors: got 0; accepted: 1 \.\. 8"),
        ({"message_length": 2}, "message_length: got 2"),
        ({"speaker": "digitising", "stimulus": "mhe"}, "digitising"),
        ({"shots": 2}, "shots"),
    ],
    "Pendulum-v1": [({"max_torque": 0.0}, "max_torque")],
    "Recall-v0": [
        ({"stimulus": "mhe"}, "stimulus: got 'mhe'.*accepted: scs, ohe"),
        ({"rules": "code"}, "rules: got 'code'"),
        ({"max_values": 200}, "max_values: got 200; accepted: at most 16384 comb"),
    ],
}
PARAMS = {
    "Acrobot-v1": [({"mass_2": (-1.0, 1.0)}, "mass_2.*above 0"), ({"inertia": 0.0}, "inertia")],
    "AnyMDP-v0, 8 states": [
        ({"states": (3, 8)}, r"states: got .*; accepted: 4 \.\. 8"),
        ({"states": (8, 6)}, "states"),
        ({"states": 9}, "states"),
        ({"actions": 6}, r"actions: got 6; accepted: 2 \.\. 5"),
        ({"branching": 9}, r"branching: got 9; accepted: 1 \.\. 8"),
        ({"pitfalls": (0.0, 1.0)}, "pitfalls"),
        ({"density": 1.5}, "density"),
    ],
    "BanditTwoArmedHighLowFixed-v1": [
        ({"chances": [(0.5, 1.1), (0, 1)]}, "chances.*within .0, 1"),
        ({"chances": [(-0.1, 0.5), (0, 1)]}, "chances.*within .0, 1"),
        ({"chances": [(0.6, 0.5), (0, 1)]}, "chances.*lowest, highest"),
        ({"chances": [0.5, 0.5]}, "chances.*2 arms"),
        ({"chances": [(0, 1)] * 3}, "chances.*2 arms"),
        ({"payments": [(0, float("inf")), (0, 1)]}, "payments.*finite"),
        ({"spread": -1.0}, "spread"),
    ],
    "BernoulliBandit-v0": [
        ({"low": -0.1}, "low"),
        ({"high": 1.1}, "high"),
        ({"low": 0.7, "high": 0.6}, "low"),
    ],
    "CliffWalking-v1": [
        ({"success_rate": 1.2}, "success_rate"),
        ({"success_rate": -0.1}, "success_rate"),
        ({"reward_schedule": (1.0, 0.0, 0.0)}, "reward_schedule"),
        ({"reward_schedule": (1.0, float("inf"))}, "reward_schedule"),
        ({"rows": 5}, r"rows.*accepted: 2 \.\. 4"),
        ({"rows": 1}, "rows"),
        ({"rows": (4, 3)}, "rows.*a range .lowest, highest."),
        ({"columns": (2, 13)}, r"columns.*accepted: 2 \.\. 12"),
        ({"columns": (2, 5, 9)}, "columns.*range"),
        ({"cliff_rows": 4}, r"cliff_rows.*accepted: 1 \.\. 3"),
        ({"cliff_rows": 2, "rows": (2, 4)}, r"cliff_rows.*accepted: 1 \.\. 1"),
        ({"cliff_rows": 0}, "cliff_rows"),
    ],
    "ContextualBandit-v0": [({"noise": -1.0}, "noise: got -1")],
    "DarkRoom-v0, size 4": [({"size": 5}, "size"), ({"size": 1}, "size")],
    "FrozenLake-v1": [({"hole_probability": 0.1}, "hole_probability")],
    "FrozenLake-v1, size 5": [
        ({"hole_probability": 1.2}, "hole_probability"),
        ({"hole_probability": -0.1}, "hole_probability"),
        ({"success_rate": 1.2}, "success_rate"),
        ({"success_rate": -0.2}, "success_rate"),
        ({"size": 1}, "size"),
        ({"size": 6}, r"size: got 6; accepted: 2 \.\. 5"),
        ({"reward_schedule": (1.0, 0.0)}, "reward_schedule"),
    ],
    "GaussianBandit-v0": [
        ({"low": 1.0}, "low"),
        ({"low": float("-inf")}, "low"),
        ({"spread": -0.1}, "spread"),
        ({"noise": -0.1}, "noise"),
    ],
    "InvertedDoublePendulum-v4": [({"damping": -0.1}, "damping")],
    "InvertedDoublePendulum-v5": [
        ({"cart_mass": -1.0}, "cart_mass.*above 0"),
        ({"length_2": 0.3}, "length_2.*more than 1 m"),
    ],
    "KeyToDoor-v0, size 4": [({"size": 5}, "size"), ({"size": 1}, "size")],
    "LunarLander-v3": [
        ({"gravity": 1.0}, r"gravity: got \[1.0, 1.0\]; .* within \(-12, 0\)"),
        ({"gravity": (-5.0, -6.0)}, "gravity: .* a range .lowest, highest."),
        ({"gravity": (-5.0, -4.0, -3.0)}, "gravity: .* a number or a range"),
        ({"wind_power": -1.0}, "wind_power: .* >= 0"),
        ({"first_force": -1.0}, "first_force"),
        ({"roughness": 1.5}, "roughness"),
    ],
    "MazeWorld-v0": [
        ({"size": 8}, "size: got 8; accepted: odd, 7 .. 15"),
        ({"size": 17}, "size: got 17"),
        ({"size": 5}, "size: got 5"),
        ({"density": -0.1}, "density"),
        ({"density": 1.0}, r"density: got 1.0; accepted: .* \[0, 1\)"),
        ({"num_landmarks": 0}, "num_landmarks: got 0"),
        ({"num_landmarks": 11}, r"num_landmarks: got 11; accepted: 1 \.\. 10"),
        ({"mean_landmark_reward": float("inf")}, "mean_landmark_reward"),
        ({"step_reward": 0.0}, "step_reward: got 0.0"),
        ({"step_reward": 0.01}, "step_reward"),
        ({"goal_scale": -1.0}, "goal_scale"),
        ({"cell_size": -2.0}, "cell_size"),
        ({"cell_size": (3.0, 2.0)}, "cell_size: .* a range .lowest, highest."),
        ({"cell_size": (1.0, 2.0, 3.0)}, "cell_size: .* a number or a range"),
        ({"wall_height": 0.0}, "wall_height"),
        ({"wall_height": 1.6}, "eye_height: .* below every wall_height"),
        ({"eye_height": (1.0, 3.2)}, "eye_height"),
        ({"view_range": (0.0, 3.0)}, "view_range"),
        ({"num_commands": 0}, "num_commands: got 0"),
        ({"refresh_interval": 0}, "refresh_interval: got 0"),
        ({"initial_life": -0.1}, "initial_life"),
        ({"initial_life": 4.0}, r"initial_life, max_life: got \(4.0, 3.0\)"),
    ],
    "MazeWorld-v0, driven": [({"cell_size": 0.3}, "cell_size: .*0.4 m wide")],
    "MetaRG-v0": [
        ({"min_values": 5, "max_values": 4}, r"min_values, max_values: got \(5, 4\)"),
        ({"min_values": 1}, "min_values: got 1"),
        ({"max_values": 6}, r"max_values: got 6; .*make\(..., max_values="),
        ({"shots": 2}, r"shots: got 2; .*max_shots="),
        ({"shots": 0}, "shots: got 0"),
        ({"samples": 4}, r"samples: got 4; .*max_samples="),
        ({"shotz": 1}, "got 'shotz' .did you mean 'shots'.*accepted: min_values, "),
    ],
    "MetaRG-v0, 4 words": [({"max_values": 5}, "max_values: got 5; .*vocab_size, 4")],
    "MountainCar-v0": [
        ({"force": -0.001}, "force.*>= 0"),
        ({"max_speed": 0.0}, "max_speed.*above 0"),
        ({"gravity": (0.003, 0.002)}, "gravity.*a range .lowest, highest."),
        ({"gravity": (0.1, 0.2, 0.3)}, "gravity.*range"),
        ({"min_position": -0.5}, "min_position.*-0.6"),
        ({"goal_position": 0.7}, "goal_position"),
    ],
    "Pendulum-v1": [({"length": float("inf")}, "length.*finite")],
    "Recall-v0, 3 values": [
        ({"max_values": 4}, r"max_values: got 4; accepted: up to 3"),
        ({"shots": 3}, r"shots: got 3; accepted: up to 2; make\(..., max_shots"),
        ({"min_values": 3, "max_values": 2}, "min_values, max_values: got"),
    ],
}
# Static options of the environments that have a comma in their names here.
OPTIONS = {
    "8 states": {"max_states": 8},
    "size 4": {"size": 4},
    "size 5": {"size": 5},
    "driven": {"actions": "continuous"},
    "4 words": {"vocab_size": 4},
    "3 values": {"max_values": 3, "num_dims": 2},
}


def cases(table):
    return [(name, *case) for name, of_name in table.items() for case in of_name]


@pytest.mark.parametrize(("env_id", "static", "message"), cases(STATIC), ids=str)
def test_static_options_are_refused(env_id, static, message):
    with pytest.raises(ValueError, match=message):
        gpicljax.make(env_id, **static)


@pytest.mark.parametrize(("name", "params", "message"), cases(PARAMS), ids=str)
def test_params_are_refused(name, params, message):
    env_id, _, options = name.partition(", ")
    env = gpicljax.make(env_id, **OPTIONS.get(options, {}))
    with pytest.raises(ValueError, match=message):
        env.make_params(**params)
