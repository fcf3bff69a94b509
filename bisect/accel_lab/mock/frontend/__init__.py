"""The main front end: fusion, layouts, tiling and memory plan, from loop IR to kernel specs."""
