"""Plain text for the terminal."""
