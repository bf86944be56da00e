"""TODO gpicljax/systems/meta_language/studies."""
