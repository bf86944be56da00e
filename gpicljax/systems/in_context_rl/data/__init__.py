"""Learning histories: of agents as they learn, stored and learnt from."""

__all__: list[str] = []
