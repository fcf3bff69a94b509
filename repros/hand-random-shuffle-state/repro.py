"""random.shuffle in a compiled function: the state of the random module afterwards."""
import random

import torch


def mix(x, items):
    random.shuffle(items)
    return x + items[0]


def play(f):
    random.seed(3)
    hands = []
    for _ in range(3):
        hand = list(range(6))
        f(torch.zeros(1), hand)
        hands.append(hand)
    return hands, random.random()


want = play(mix)
got = play(torch.compile(mix, backend="eager"))
assert got == want, f"compiled {got}, eager {want}"
