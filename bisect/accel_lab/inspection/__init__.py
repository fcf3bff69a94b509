"""Reports what the compiler did with a script: graphs, graph breaks, guards, recompilations."""
