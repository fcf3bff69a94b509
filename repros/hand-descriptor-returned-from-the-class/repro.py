"""The value of a data descriptor, read on the class and given back to the caller."""
import torch


class Limit:
    def __get__(self, instance, owner):
        if instance is None:
            return 30
        return instance.__dict__.get("limit", 0) + 1

    def __set__(self, instance, value):
        instance.__dict__["limit"] = value * 2


class Settings:
    limit = Limit()


def step(x, settings):
    settings.limit = 7
    return x + settings.limit, Settings.limit


_, limit = torch.compile(step, backend="eager")(torch.ones(2), Settings())
assert limit == 30, f"got {limit!r}"
