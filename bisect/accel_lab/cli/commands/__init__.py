"""One module a command; ``cli.main`` imports the one that is called."""
