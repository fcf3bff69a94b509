"""Ways in which one stage is blamed for the fault of another: one file each, and the registry of them all."""
