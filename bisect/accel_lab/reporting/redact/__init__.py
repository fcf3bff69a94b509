"""What is private is taken out of texts and sources, and what could be is listed for a person."""
