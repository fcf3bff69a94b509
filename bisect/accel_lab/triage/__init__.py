"""Many scripts: each is bisected once, and what fails for the same reason becomes one fault."""
