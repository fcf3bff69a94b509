"""Names the files, other than ``result.json``, that a child writes into its folder for the lab.

Each comment names the modules that write and read the file; they define its format.
"""

from __future__ import annotations

#: The compiler's graphs and loop IR, a row a line (``child/hooks/layers.py``, ``inspection/layers.py``).
LAYERS = "layers.jsonl"
#: The files that the program opened, one a line (``child/opened_files.py``, ``execution/collect.py``).
OPENED = "opened.txt"
#: Counts of the command ``record`` (``child/capsule/main.py``, ``cli/commands/record_command.py``).
RECORDED = "recorded.json"
#: The operator whose meta kernel runs, else blank (``child/rungs/meta_check.py``, ``execution/collect.py``).
META_KERNEL = "meta_kernel.txt"
