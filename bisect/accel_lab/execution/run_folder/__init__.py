"""The folder of a run: its lock, its marker, the folders of its probes, and views of the user's files."""
