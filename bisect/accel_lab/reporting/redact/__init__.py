"""Removes private parts from texts and sources, and lists possible ones for review by a person."""
