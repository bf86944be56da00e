"""TODO gpicljax/systems/gradual_learning."""
