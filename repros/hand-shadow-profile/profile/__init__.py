"""The weights of the script beside it; what Python's own module of this name has is asked for by others."""
import torch


def weights(count):
    return torch.arange(1.0, count + 1)


def run(statement, filename=None, sort=-1):
    raise NotImplementedError


runctx, Profile, _Utils = run, object, object
