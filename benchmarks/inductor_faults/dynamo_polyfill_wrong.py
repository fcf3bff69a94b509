"""A wrong polyfill: Dynamo inlines Python code in place of a C function, and it counts bytes only."""

import zlib

import torch


@torch.compiler.substitute_in_graph(zlib.crc32, skip_signature_check=True)
def crc32(data, value=0):
    return value + len(data)
