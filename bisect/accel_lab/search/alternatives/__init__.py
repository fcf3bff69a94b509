"""Other explanations of a failure than the stage of the ladder at which it starts, one file each."""
