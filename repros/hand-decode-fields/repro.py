import torch


class BadPacket(Exception):
    pass


def title_of(raw):
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def handle(raw, values):
    title = title_of(raw)
    return values * len(title), title


values = torch.ones(3)
fast = torch.compile(handle)
for raw in (b"plain", b"caf\xe9"):
    want, title = handle(raw, values)
    got, compiled_title = fast(raw, values)
    assert title == compiled_title, (title, compiled_title)
    torch.testing.assert_close(got, want)
print("ok")
