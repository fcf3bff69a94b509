"""A text template that needs two values gets one; the IndexError is handled."""
import torch


def title(x, template):
    try:
        return x, template.format(1)
    except IndexError:
        return x + 1, "incomplete"


_, text = torch.compile(title, backend="eager")(torch.ones(1), "{} of {}")
assert text == "incomplete", text
