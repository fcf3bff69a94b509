"""The lab's core types: probe, outcome, verdict, signature, stage, evidence, findings."""
