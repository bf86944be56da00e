"""TODO gpicljax/systems/meta_rg/experts."""
