# pytorch#141017: what stands behind the first -1 of a target is padding and must not add to the loss.
import torch
import torch.nn.functional as F

scores = torch.tensor([[0.3, -0.6, 0.9, 0.2], [0.1, 0.8, -0.4, 0.5]])
labels = torch.tensor([[2, -1, 3, 0], [1, 3, -1, -1]])


def loss(s):
    return F.multilabel_margin_loss(s, labels)


torch.testing.assert_close(torch.compile(loss)(scores), loss(scores))
