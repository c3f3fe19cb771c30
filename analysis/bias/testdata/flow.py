# Prints the figures that TestFlowGolden expects: python3 flow.py
import numpy as np

n, h, draws, seed = 10, 5, 16, 20
i = np.arange(n * h)
x = ((i * 7 % 11 - 5) / 4).astype(np.float32)
y = (x + (i * 5 % 13 - 4).astype(np.float32) / 32).astype(np.float32)
x, y = x.astype(np.float64).reshape(n, h), y.astype(np.float64).reshape(n, h)
d = y - x


def signs(position):
    mask = (1 << 64) - 1
    z = (position + (seed << 40)) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    z ^= z >> 31
    return np.array([-1.0 if z >> k & 1 else 1.0 for k in range(draws)])


s = np.stack([signs(p) for p in range(n)])  # positions × draws
null = np.sum(np.einsum("pk,ph->kh", s, d) ** 2, axis=1) / (n * np.sum(d**2))
print("goldenRel    ", repr(float(np.linalg.norm(d) / np.linalg.norm(x))))
print("goldenBias   ", repr(float(d.sum() / np.abs(x).sum())))
print("goldenGain   ", repr(float((d * x).sum() / (x * x).sum())))
print("goldenRef    ", repr(float(x.sum() / np.abs(x).sum())))
print("goldenShift  ", repr(float(n * np.sum(d.mean(axis=0) ** 2) / np.sum(d**2))))
print("goldenNull   ", repr(float(null.mean())))
print("goldenNullMax", repr(float(null.max())))
