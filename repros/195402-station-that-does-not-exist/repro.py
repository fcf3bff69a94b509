"""Readings are normalised and one station is picked per query; a query names a station that does not exist."""
import torch


def pick(readings, station):
    return (readings - 0.5)[station]


torch.set_num_threads(2)
readings = torch.linspace(0, 1, 8 * 66 * 66).view(1, 8, 66, 66)
compiled = torch.compile(pick)
answers = []
for station in (torch.tensor([[0]]), torch.tensor([[1]])):
    try:
        answers.append(compiled(readings, station).mean().item())
    except (IndexError, RuntimeError):
        answers.append(None)
assert answers[1] is None, answers
print("refused the second query")
