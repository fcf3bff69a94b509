"""Readers of what strangers wrote: child files, recorded rows, settings; sizes and types are checked."""
