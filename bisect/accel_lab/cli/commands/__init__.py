"""The commands, one module each; ``cli.main`` imports only the one that is called."""
