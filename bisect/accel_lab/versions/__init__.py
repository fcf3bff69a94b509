"""The version axis: one failure followed over many builds of torch, and what changed where it flips."""
