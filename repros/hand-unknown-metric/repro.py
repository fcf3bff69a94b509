"""Looks up a metric by name and explains what went wrong when there is none."""
import torch

METRICS = {"mean": torch.mean, "max": torch.amax}


class UnknownMetric(Exception):
    pass


def pick(name):
    try:
        return METRICS[name]
    except KeyError as e:
        raise UnknownMetric("no such metric: " + str(e)) from e


def score(x, name):
    try:
        return pick(name)(x), "ok"
    except UnknownMetric as e:
        return x.sum() * 0, str(e)


x = torch.arange(5.0)
fast = torch.compile(score)
for name in ("mean", "max", "median"):
    (want, note), (got, compiled_note) = score(x, name), fast(x, name)
    torch.testing.assert_close(got, want)
    assert note == compiled_note, (note, compiled_note)
print("ok")
