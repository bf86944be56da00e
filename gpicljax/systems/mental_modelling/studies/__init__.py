"""TODO gpicljax/systems/mental_modelling/studies."""
