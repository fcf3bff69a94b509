"""What the mock device asks of a graph: dtypes, layouts, alignment, memory, operators."""
