"""TODO gpicljax/systems."""
