"""A job whose hook for exceptions tells its scheduler the reason by the exit code."""
import sys

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


def tell_scheduler(kind, error, traceback):
    print(f"job failed: {kind.__name__}", file=sys.stderr)
    sys.exit(3)


sys.excepthook = tell_scheduler
_, default = torch.compile(charge, backend="eager")(torch.ones(2), Account())
assert default == 30, f"the default quota is {type(default).__name__}"
