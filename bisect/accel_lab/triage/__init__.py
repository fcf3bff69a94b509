"""Triage of many scripts: bisects each once, and groups failures with the same cause into one fault."""
