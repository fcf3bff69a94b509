"""Runs a job on Inductor, checks a sample of its compiled calls, and saves failing calls as capsules."""
