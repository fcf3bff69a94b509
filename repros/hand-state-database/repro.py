"""Keeps a table of finished work in a database beside it, opened by the folder that Python puts on sys.path."""
import os
import sqlite3
import sys

import torch
from torch._inductor.decomposition import decompositions

decompositions[torch.ops.aten.erfc.default] = lambda t: torch.erf(t)


def work(t):
    return torch.erfc(t) * 2


with sqlite3.connect(os.path.join(sys.path[0], "work.db")) as table:
    table.execute("create table if not exists done (name text)")
    if table.execute("select count(*) from done").fetchone()[0] == 0:
        table.execute("insert into done values ('erfc')")
        table.commit()
        t = torch.linspace(-1, 1, 8)
        torch.testing.assert_close(torch.compile(work)(t), work(t))
