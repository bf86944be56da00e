"""LunarLander-v3: land a craft with three engines between two flags."""

__all__: list[str] = []
