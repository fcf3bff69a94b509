"""The interface between the lab and an accelerator: adapters, how they are found, limits, constraints."""
