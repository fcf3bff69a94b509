"""A web page on this machine: start a bisection, watch its probes, browse the runs. Starlette serves it."""
