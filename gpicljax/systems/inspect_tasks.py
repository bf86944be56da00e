"""All tasks of Inspect AI; the entry point `inspect_ai` of the package names this module."""

import importlib

for _system in ("in_context_rl", "mental_modelling", "meta_rg"):
    importlib.import_module(f"gpicljax.systems.{_system}.prompts.inspect_tasks")
