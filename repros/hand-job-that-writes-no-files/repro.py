"""A job that must not write a file: it replaces open before it starts."""
import builtins

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


def read_only(path, mode="r", *rest, **more):
    if set(mode) & set("wax+"):
        raise PermissionError(f"this job writes no files: {path}")
    return plain_open(path, mode, *rest, **more)


plain_open, builtins.open = builtins.open, read_only
_, default = torch.compile(charge, backend="eager")(torch.ones(2), Account())
assert default == 30, f"the default quota is {type(default).__name__}"
