"""TODO gpicljax/systems/in_context_rl."""
