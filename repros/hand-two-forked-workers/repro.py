"""Two forked workers charge accounts at the same time."""
import multiprocessing

import torch


class Quota:
    """A number that each account keeps doubled; read on the class it is the default."""

    def __get__(self, account, owner):
        return 30 if account is None else account.__dict__.get("quota", 0) + 1

    def __set__(self, account, value):
        account.__dict__["quota"] = value * 2


class Account:
    quota = Quota()


def charge(amounts, account):
    account.quota = 7
    return amounts + account.quota, Account.quota


def work(number):
    _, default = torch.compile(charge, backend="eager")(torch.full((2,), float(number)), Account())
    assert default == 30, f"the default quota is {type(default).__name__}"
    return number


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, [1, 2]))
