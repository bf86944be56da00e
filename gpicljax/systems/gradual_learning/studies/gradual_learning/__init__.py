"""Gradual learning on streams of bytes: how fast, does what came before help, is it kept?

    python experiments/gradual_learning.py

meta-trains a memory on streams of random instances, by imitation of a guide that says what can be
known. Then its weights are frozen, and it learns each new instance in its context: a curriculum in
order beside experts and a null that reads feedback; every task set with and without those that it
builds on; and every one again in the end. `--preset mappings` has what feedback tells,
`--preset curriculum` all mappings of bytes and strings, `--preset held-out` leaves some out of the
training; `--network.memory transformer` changes the memory, `--learner recurrent-ppo` the
algorithm.
"""

__all__: list[str] = []
