"""Localizes a fault in an accelerator: front end, back end, transfers, and the first wrong kernel."""
