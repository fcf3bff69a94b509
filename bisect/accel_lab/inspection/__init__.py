"""What the compiler did with a script that need not fail: graphs, graph breaks, guards, recompilations."""
