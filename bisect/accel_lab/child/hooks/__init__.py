"""Hooks into the compiler: they note what its parts did, and switch single parts off."""
