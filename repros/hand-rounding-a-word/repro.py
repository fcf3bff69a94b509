"""A setting is rounded if it is a number; round() of a word raises TypeError, which is handled."""
import torch


def level(x, setting):
    try:
        return x * round(setting)
    except TypeError:
        return x * 0


got = torch.compile(level, backend="eager")(torch.ones(2), "high")
assert got.tolist() == [0.0, 0.0], got
