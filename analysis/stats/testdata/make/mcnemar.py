"""Writes mcnemar.json: paired shares. python3 mcnemar.py > ../mcnemar.json
scipy 1.17.1, numpy 2.4.6. Power is a sum over the whole trinomial distribution of
pairs, which shares nothing with the conditional sum that is tested; Newcombe's
interval is written from his paper (Statistics in Medicine 17:2635, method 10)."""
import json
import numpy as np
from scipy import stats


def newcombe(a, b, c, d, level):
    """a both, b the first alone, c the second alone, d neither: second less first."""
    n = a + b + c + d
    ci = lambda k: stats.binomtest(k, n, 0.5).proportion_ci(level, "wilson")
    one, two = ci(a + b), ci(a + c)
    p, q = (a + b) / n, (a + c) / n
    down = (a + b) * (c + d) * (a + c) * (b + d)
    cross = a * d - b * c
    if cross > n / 2:
        cross -= n / 2
    elif cross >= 0:
        cross = 0
    phi = cross / np.sqrt(down) if down else 0.0
    dl, du = q - two.low, two.high - q
    el, eu = p - one.low, one.high - p
    theta = q - p
    low = theta - np.sqrt(dl**2 - 2 * phi * dl * eu + eu**2)
    high = theta + np.sqrt(du**2 - 2 * phi * du * el + el**2)
    return float(low), float(high)


def power(n, b, c, alpha):
    total = 0.0
    for x in range(n + 1):
        for y in range(n + 1 - x):
            if x + y and stats.binomtest(x, x + y, 0.5).pvalue <= alpha:
                total += stats.multinomial.pmf([x, y, n - x - y], n, [b, c, max(0.0, 1 - b - c)])
    return float(total)


out = {"mcnemar": [], "shares": [], "power": [], "fisher": []}
for b, c in [(1, 7), (0, 5), (0, 6), (3, 3), (10, 25), (40, 61), (0, 1), (500, 610), (2, 40)]:
    n, k = b + c, min(b, c)
    p = stats.binomtest(b, n, 0.5).pvalue
    out["mcnemar"].append({"b": b, "c": c, "p": float(p), "mid": float(min(1, 1 if b == c else p - stats.binom.pmf(k, n, 0.5)))})
for cells in [(1, 1, 7, 12), (59, 6, 16, 80), (20, 0, 0, 0), (0, 0, 0, 20), (0, 20, 0, 0), (10, 5, 0, 5), (36, 0, 2, 2), (7, 3, 3, 1), (212, 144, 256, 707), (1, 2, 3, 0)]:
    for level in (0.95, 0.9):
        low, high = newcombe(*cells, level)
        out["shares"].append({"cells": cells, "level": level, "low": low, "high": high})
for n, b, c, alpha in [(10, 0.5, 0.05, 0.05), (20, 0.3, 0.1, 0.05), (40, 0.25, 0.05, 0.05), (40, 0.0, 0.2, 0.05), (60, 0.02, 0.12, 0.01), (30, 0.2, 0.2, 0.05), (6, 1.0, 0.0, 0.05), (5, 1.0, 0.0, 0.05), (25, 0.9, 0.1, 0.05)]:
    out["power"].append({"n": n, "b": b, "c": c, "alpha": alpha, "power": power(n, b, c, alpha)})
for k, n, l, m in [(8, 10, 1, 9), (3, 20, 9, 22), (0, 5, 0, 7), (5, 5, 0, 6), (50, 100, 62, 101), (1, 1, 0, 1)]:
    out["fisher"].append({"k": k, "n": n, "l": l, "m": m, "p": float(stats.fisher_exact([[k, n - k], [l, m - l]]).pvalue)})
print(json.dumps(out, indent=1))
