# pytorch#196173: the branch that was captured for two objects is taken again when both are one.
import torch


class Token:
    hits = 0


def count(x, a, b):
    if a is b:
        a.hits += 1
        return x + a.hits
    b.hits += 10
    return x - b.hits


def three_calls(fn):
    x, p, q = torch.zeros(2), Token(), Token()
    return [fn(x, p, q), fn(x, p, p), fn(x, q, p), torch.tensor([p.hits, q.hits])]


torch.testing.assert_close(three_calls(torch.compile(count)), three_calls(count))
