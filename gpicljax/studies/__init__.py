"""TODO gpicljax/studies."""
