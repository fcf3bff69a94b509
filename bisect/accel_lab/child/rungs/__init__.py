"""The rungs of the ladder: backends and contexts that stop the compiler at a chosen stage."""
