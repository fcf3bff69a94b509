"""Phases of a spectrogram as one vector (frames first); the angles are laid out anew in eager, so view works."""
import torch


def phases(signal):
    window = torch.hann_window(8)
    spectrum = torch.fft.rfft(signal.unfold(0, 8, 4) * window, dim=1)
    return torch.angle(spectrum.t()).view(-1)


signal = torch.sin(torch.arange(32.0) * 0.7)
got = torch.compile(phases)(signal)
assert got.shape == (35,) and torch.isfinite(got).all(), got
print(got[:3].tolist())
