"""The reference front end and back end: simple, slow, and independent of the main ones."""
