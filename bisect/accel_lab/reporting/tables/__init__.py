"""Plain-text tables for the terminal."""
