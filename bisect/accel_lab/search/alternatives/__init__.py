"""Known ways in which one stage is blamed for another's fault: one file each, and their registry."""
