"""Processes: started in one place, watched, limited, and ended with all that they started."""
