"""The handler of a KeyError from dict.pop names the key that is missing."""
import torch


def scaled(x, settings):
    try:
        return x * settings.pop("gain"), ""
    except KeyError as error:
        return x, "no " + error.args[0]


_, note = torch.compile(scaled, backend="eager")(torch.ones(2), {"bias": 1})
assert note == "no gain", note
