"""The reference front end and back end: simple, slow, independent of the main ones."""
