"""The web page of this machine: starts bisections, shows their probes, lists the runs; based on Starlette."""
