"""Localization within a stage: the graph, pass, operator, line or setting at fault."""
