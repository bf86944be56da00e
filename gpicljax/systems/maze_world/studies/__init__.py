"""TODO gpicljax/systems/maze_world/studies."""
