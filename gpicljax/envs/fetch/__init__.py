"""Fetch: a robot's arm brings a block to a goal; Gymnasium-Robotics' three tasks, on MuJoCo."""

__all__: list[str] = []
