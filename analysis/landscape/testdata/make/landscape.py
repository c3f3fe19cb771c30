#!/usr/bin/env python3
"""Makes ../landscape.json: an unbalanced table of 4 layers x 6 experts x 3 projections
with four holes, and what numpy's least squares and scipy say of it.

    python landscape.py > ../landscape.json        (made with scipy 1.17, numpy 2.2)
"""
import json

import numpy as np
from scipy import stats
from scipy.optimize import brentq

rng = np.random.default_rng(5)
holes = {(0, 1, 2), (2, 3, 0), (3, 5, 1), (3, 5, 2)}
rows = []
for l in range(4):
    for e in range(6):
        for p in range(3):
            if (l, e, p) not in holes:
                y = 0.009 * np.exp(0.02 * l + 0.01 * (e == 2) + [0, 0.03, -0.01][p] + 0.02 * rng.standard_normal())
                rows.append((l, e, p, float(y)))
table = np.array(rows)
L, E, P, y = table.T
n, total = len(y), float(((y - y.mean()) ** 2).sum())


def design(factors):
    return np.stack([np.ones(n)] + [(f == v).astype(float) for f in factors for v in np.unique(f)], 1)


def fit(factors, of=y):
    x = design(factors)
    b, *_ = np.linalg.lstsq(x, of, rcond=None)
    return float(((of - x @ b) ** 2).sum()), int(np.linalg.matrix_rank(x)), b, x


sse, rank, *_ = fit([L, E, P])
df = n - rank
out = {"rows": rows, "remainder": sse / total}
for name, others, d in (("layer", [E, P], 3), ("expert", [L, P], 5), ("projection", [L, E], 2)):
    ss = fit(others)[0] - sse
    rest, f = (total - ss) / (sse / df), ss / d / (sse / df)

    def at(p):
        if stats.ncf.cdf(f, d, df, 1e-12) < p:
            return 0.0
        return brentq(lambda x: stats.ncf.cdf(f, d, df, x) - p, 1e-12, 400, xtol=1e-10)

    out[name] = [ss / total] + [(d + lam) / (d + lam + rest) for lam in (at(0.975), at(0.025))]

cell = 10 * L + P
s0, r0, *_ = fit([cell])
s1, r1, *_ = fit([cell, E])
f = (s0 - s1) / (r1 - r0) / (s1 / (n - r1))
out["adjusted"] = [f, float(stats.f.sf(f, r1 - r0, n - r1))]
groups = [y[E == e] for e in np.unique(E)]
out["anova"] = [float(v) for v in stats.f_oneway(*groups)]
out["kruskal"] = [float(v) for v in stats.kruskal(*groups)]
means, counts = np.array([g.mean() for g in groups]), np.array([len(g) for g in groups])
out["over_expected"] = float(means.var(ddof=1) / (total / (n - 1) * np.mean(1 / counts)))

# Levels of layers on logarithms against the median one, or where they differ by
# that against the median of those that do not; see compareSet.
sse, rank, b, x = fit([P, L, E], np.log(y))
inverse, layers, k = np.linalg.pinv(x.T @ x), b[4:8], 4


def median_variance(m):
    return np.pi / 2 / (m + (np.pi - 2 if m % 2 == 0 else np.pi / 2 - 1))


def error(i, times):
    c = np.zeros(x.shape[1])
    c[4:8] = -1 / k
    c[4 + i] += 1
    return np.sqrt(sse / df * (c @ inverse @ c) * k / (k - 1) * times)


effects = layers - np.median(layers)
ps = [min(1.0, 2 * k * stats.t.sf(abs(effects[i]) / error(i, (k + 1) / k), df)) for i in range(k)]
even = [layers[i] for i in range(k) if ps[i] >= 0.0005]
out["layer_levels"] = []
for i in range(k):
    effect, se = effects[i], error(i, (k + 1) / k)
    if ps[i] < 0.0005 and even:
        effect, se = layers[i] - np.median(even), error(i, 1 + median_variance(len(even)))
    half = stats.t.ppf(0.975, df) * se
    out["layer_levels"].append([float(np.exp(v)) for v in (effect, effect - half, effect + half)] + [float(ps[i])])

# Mean rank correlation of neighbouring layers, with the interval over experts.
means = np.full((4, 6), 0.0)
cells = {(l, p): y[(L == l) & (P == p)].mean() for l in range(4) for p in range(3)}
for l in range(4):
    for e in range(6):
        at = (L == l) & (E == e)
        means[l, e] = np.mean([v - cells[l, p] for v, p in zip(y[at], P[at])])
zs, apart, over = [], 0.0, np.zeros(6)
for l in range(3):
    u, v = stats.rankdata(means[l]), stats.rankdata(means[l + 1])
    rho = stats.spearmanr(u, v)[0]
    zs.append(np.arctanh(rho))
    apart += (1 + rho**2 / 2) / 3 / 9
    h = np.array([u[i] * v[i] + sum(v[j] for j in range(6) if u[j] > u[i]) + sum(u[j] for j in range(6) if v[j] > v[i]) + (u[i] + v[i]) / 2 for i in range(6)]) * 12 / 36
    over += (h - h.mean()) / (1 - rho**2) / 3 / np.sqrt(30)
half = stats.t.ppf(0.975, 4) * np.sqrt(max(apart, (over**2).sum()))
out["neighbours"] = [float(np.tanh(np.mean(zs) + d)) for d in (0, -half, half)]

# Standard error of the share of the worst 4 by leaving out each.
worst = np.sort(y)[::-1]
share = [np.sort(np.delete(worst, i))[::-1][:4].sum() / np.delete(worst, i).sum() for i in range(n)]
out["top_error"] = float(np.sqrt((n - 1) / n * ((share - np.mean(share)) ** 2).sum()))
print(json.dumps(out, indent=1))
