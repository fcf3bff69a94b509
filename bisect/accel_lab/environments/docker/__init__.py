"""Provider ``docker``: images of pinned builds, and runs in isolated containers."""
