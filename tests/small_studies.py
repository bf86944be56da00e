"""Flags that make a training as small as its tables allow."""

SMALL = {
    "train_agent": "--env=FrozenLake-v1 --env-options=is_slippery=False --algo=q-learning"
    " --num-envs=8 --observations=2048 --agent.unroll=32 --probe-episodes=4"
    " --evaluation-episodes=8 --evaluation-steps=100",
    "meta_rg": "--observations=10240 --bank-size=64 --probe-episodes=16 --evaluation-episodes=32"
    " --network.heads=2 --network.slots=16 --network.predictor=16 --network.head=16"
    " --agent.batch-size=8",
    "meta_rg_players": "--observations=8192 --probe-episodes=8 --evaluation-episodes=8"
    " --agent.batch-size=2",
    "recall": "--vmax=3 --observations=5120 --probe-episodes=8 --evaluation-episodes=32"
    " --network.encoder=8 --network.mixer=8 --network.core=8 --agent.batch-size=8",
    "meta_language": "--model.layers=2 --model.width=16 --model.heads=2 --context=32"
    " --agent.batch-size=4 --observations=512 --evaluation-orders 2 3 --evaluation-context=288"
    " --evaluation-sequences=4 --text-windows=3 --demonstrations=2",
    "maze_world_autoencoder": "--size=7 --landmarks=2 --resolution 16 16 --demonstration.length=6"
    " --mazes=2 --frames=3 --model.latent=4 --model.width=8 --observations=72"
    " --evaluation-mazes=3 --evaluation-frames=5",
    "one_learner": "--systems bandits lakes --length=64 --network.layers=1 --network.width=16"
    " --network.heads=2 --agent.batch-size=2 --observations=256 --trials=4",
    "in_context_control": "--steps=8 --episodes=2 --num-envs=8 --replicas=4 --agent.unroll=16"
    " --agent.minibatches=2 --network.core=8 --network.sizes=8 --observations=256",
}

TOYS = SMALL | {
    "meta_rg_players, any": "--seeds=2 --vmax=2 --log-lines=2 --probe-episodes=8"
    " --evaluation-episodes=16 --structures=4 --taught=1 --network.heads=2 --network.predictor=8"
    " --network.head=8 --network.slots=16",
    "meta_rg_players, sequences": "--observations=1000 --players.games=8 --players.episodes=2"
    " --players.batch-size=2 --players.copies=2 --players.speaker-sizes=8",
    "meta_rg_players, agents": "--observations=5120 --bank-size=64 --agent.replay-capacity=64"
    " --agent.min-replay=32 --agent.batch-size=4",
    "maze_world": "--preset=cpu-7x7 --contexts 0 1 --model.layers=1 --model.width=16"
    " --model.heads=2 --resolution=16 --demonstration.length=16 --agent.batch-size=2 --group=1"
    " --observations=128 --log-lines=2 --sequences=4 --evaluation-tasks=4 --marks 1 4 --horizon=4",
    "in_context_rl_train": "--actions=20 --num-envs=16 --observations=336 --log-lines=1"
    " --replicas=64 --network.tables.code 8 4 --network.tables.embedding=8 --network.tables.sizes=8"
    " --network.tables.readout=8",
}
"""Those of studies that have no test in common, and of parts."""


def small_flags(study, more=""):
    """Returns the flags of a small run, and more in one string."""
    return [*TOYS[study].split(), *more.split(), "--no-progress"]
