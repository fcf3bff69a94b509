"""Localizes a fault within a stage: the graph, pass, operator, line or setting."""
