"""Readers of untrusted files (child output, recorded rows, settings) that check sizes and types."""
