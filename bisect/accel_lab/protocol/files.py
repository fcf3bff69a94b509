"""Files that a child writes into its folder and the lab reads, beside ``result.json``.

What is in one is known to its writer and its reader, which are named here.
"""

from __future__ import annotations

#: Every layer of the compiler, one a line (``child/hooks/layers.py``, ``inspection/layers.py``).
LAYERS = "layers.jsonl"
#: The files that the program opened, one a line (``child/opened_files.py``, ``execution/collect.py``).
OPENED = "opened.txt"
#: What ``record`` counted (``child/capsule/main.py``, ``cli/commands/record_command.py``).
RECORDED = "recorded.json"
#: Whose meta kernel runs, blank between two (``child/rungs/meta_check.py``, ``execution/collect.py``).
META_KERNEL = "meta_kernel.txt"
