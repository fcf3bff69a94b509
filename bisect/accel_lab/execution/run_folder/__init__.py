"""The folder of a run: its lock, its marker, its probes' folders, and views of the user's files."""
