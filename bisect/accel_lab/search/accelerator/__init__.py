"""The search below an accelerator: front end, back end, transfers, and the first wrong kernel."""
