"""Package indexes and releases: which wheels there are, which fit, and which a person means."""
