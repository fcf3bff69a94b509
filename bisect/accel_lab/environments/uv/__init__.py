"""Provider ``uv``: virtual environments, one for each release of torch."""
