"""The folder of kept environments: checked before use, pruned by age and size."""
