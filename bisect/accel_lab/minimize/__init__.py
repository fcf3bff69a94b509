"""Minimize: joins the reducer to real probes and turns its result into a repro that a person can read."""
