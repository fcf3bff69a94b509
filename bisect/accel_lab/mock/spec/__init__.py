"""The kernel spec, its cache, and its verifier."""
