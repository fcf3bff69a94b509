"""An interpreter of Inductor's loop IR; it finds loops whose result depends on the order of iterations."""
