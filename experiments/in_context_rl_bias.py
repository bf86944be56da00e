"""Echo and label bias of a language model in trials of reinforcement learning, counterbalanced.

The code is in `gpicljax/systems/in_context_rl/studies/in_context_rl_bias`.
`--help` lists the flags.
"""

from gpicljax.systems.in_context_rl.studies.in_context_rl_bias.program import main

if __name__ == "__main__":
    main()
