"""Datasets in memory and on disk, replay, and task sets."""
