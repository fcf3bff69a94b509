"""Lists the releases of torch, and provides an environment for each of them."""
