"""Resize frames of bytes; the checksum of the result identifies the frame later."""
import torch
import torch.nn.functional as F


def resize(frames):
    return F.interpolate(frames, size=(10, 14), mode="bilinear", align_corners=False)


frames = (torch.arange(2 * 3 * 6 * 8) * 37 % 256).to(torch.uint8).reshape(2, 3, 6, 8)
want = resize(frames)
got = torch.compile(resize)(frames)
diff = (want.int() - got.int()).abs()
print("pixels that differ:", int((diff > 0).sum()), "largest", int(diff.max()))
assert int(want.long().sum()) == int(got.long().sum())
assert torch.equal(want, got)
