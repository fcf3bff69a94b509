"""The lab's own words as types: probe, outcome, verdict, signature, stage, findings; no dependencies."""
