"""Constraints that an accelerator puts on graphs, checked on Dynamo graphs and on ATen graphs."""
