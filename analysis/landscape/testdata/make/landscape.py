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

# Levels of layers on logarithms against the median one; see compareSet.
sse, rank, b, x = fit([P, L, E], np.log(y))
inverse, layers, k = np.linalg.pinv(x.T @ x), b[4:8], 4
effects = layers - np.median(layers)
out["layer_levels"] = []
for i in range(k):
    c = np.zeros(x.shape[1])
    c[4:8] = -1 / k
    c[4 + i] += 1
    se = np.sqrt(sse / df * (c @ inverse @ c) * (k + 1) / (k - 1))
    half = stats.t.ppf(0.975, df) * se
    p = min(1.0, 2 * k * stats.t.sf(abs(effects[i]) / se, df))
    out["layer_levels"].append([float(np.exp(v)) for v in (effects[i], effects[i] - half, effects[i] + half)] + [float(p)])
print(json.dumps(out, indent=1))
