"""TODO gpicljax/systems/meta_rg/studies."""
