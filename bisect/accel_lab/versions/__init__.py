"""The version axis: follows one failure over many builds of torch and finds what changed where it flips."""
