"""Writes more.json: what stats.json does not cover. python3 more.py > ../more.json
scipy 1.17.1, numpy 2.4.6, mpmath 1.3.0. Tails are from mpmath with 50 digits,
since scipy's underflow; the rest is from scipy."""
import json
import numpy as np
from mpmath import mp, mpf, betainc, gammainc, quad, log, exp, beta, inf, binomial, nsum, factorial
from scipy import optimize, stats

mp.dps = 50


def f_tail(f, d1, d2):
    x = mpf(d2) / (mpf(d2) + mpf(d1) * mpf(f))
    return log(betainc(mpf(d2) / 2, mpf(d1) / 2, 0, x, regularized=True))


def noncentral(f, d1, d2, lam):
    y = mpf(d1) * mpf(f) / (mpf(d2) + mpf(d1) * mpf(f))
    half = mpf(lam) / 2
    total, weight = mpf(0), exp(-half)
    reach = int(half + 15 * half**0.5 + 60)
    for j in range(reach):
        total += weight * betainc(mpf(d1) / 2 + j, mpf(d2) / 2, 0, y, regularized=True)
        weight *= half / (j + 1)
    return total


def lam_of(f, d1, d2, p):
    g = lambda lam: stats.ncf.cdf(f, d1, d2, lam) - p if lam > 0 else stats.f.cdf(f, d1, d2) - p
    if g(0) <= 0:
        return 0.0
    high = d1 * f + 50
    while g(high) > 0:
        high *= 2
    return float(optimize.brentq(g, 0, high, xtol=1e-11, rtol=1e-13))


out = {}
out["f_tail"] = [
    {"f": f, "d1": d1, "d2": d2, "log_p": float(f_tail(f, d1, d2))}
    for f, d1, d2 in [
        (0.5, 1, 1), (1, 287, 1840), (0.9, 287, 1840), (1.2, 287, 36864), (1.5, 287, 36864), (9, 287, 36864),
        (1e-3, 2, 3), (1e4, 2, 3), (400, 45, 37106), (30, 4, 15), (1e9, 4, 15), (0.3, 60, 60), (1e-6, 5, 200),
    ]
]
out["chi_square_tail"] = [
    {"x": x, "df": df, "log_p": float(log(gammainc(mpf(df) / 2, mpf(x) / 2, inf, regularized=True)))}
    for x, df in [(0.1, 1), (3.84, 1), (40, 1), (5000, 1), (266, 287), (400, 287), (100, 287), (20000, 287), (36000, 37000), (37500, 37000)]
]
out["student_tail"] = [
    {"t": t, "df": df, "log_p": float(f_tail(mpf(t) ** 2, 1, df) - log(2))}
    for t, df in [(0, 5), (1, 1), (2.5, 10), (12, 50), (60, 286), (200, 37150), (1e-4, 3)]
]
out["noncentral_f"] = [
    {"f": f, "d1": d1, "d2": d2, "lambda": lam, "p": float(noncentral(f, d1, d2, lam))}
    for f, d1, d2, lam in [
        (1, 2, 10, 0), (1, 2, 10, 1), (3, 4, 15, 10), (1.5, 11, 228, 40), (1.1, 31, 480, 12.5), (2, 7, 232, 80), (6, 7, 232, 200), (0.5, 3, 20, 30),
    ]
]
out["omega_interval"] = []
rng = np.random.default_rng(5)
for groups, each, effect in [(4, 6, 0.0), (5, 8, 1.0), (32, 15, 0.3), (203, 6, 0.05), (6, 40, 3.0)]:
    means = rng.normal(size=groups) * effect
    group = np.repeat(np.arange(groups), each)
    values = rng.normal(size=groups * each) + means[group]
    n, d1, d2 = len(values), groups - 1, groups * each - groups
    f = float(stats.f_oneway(*[values[group == g] for g in range(groups)]).statistic)
    ssb = sum(each * (values[group == g].mean() - values.mean()) ** 2 for g in range(groups))
    ssw = sum(((values[group == g] - values[group == g].mean()) ** 2).sum() for g in range(groups))
    share = lambda lam: lam / (lam + n)
    out["omega_interval"].append({
        "values": values.tolist(), "group": group.tolist(), "F": f,
        "eta2": float(ssb / (ssb + ssw)), "omega2": float((ssb - d1 * ssw / d2) / (ssb + ssw + ssw / d2)),
        "low": share(lam_of(f, d1, d2, 0.975)), "high": share(lam_of(f, d1, d2, 0.025)),
    })
out["hypergeometric"] = [
    {"hits": h, "k": k, "marked": m, "n": n, "p": float(stats.hypergeom.sf(h - 1, n, m, k))}
    for h, k, m, n in [(1, 2, 2, 240), (2, 2, 2, 240), (0, 3, 5, 20), (4, 372, 372, 37152), (20, 372, 372, 37152), (371, 372, 372, 37152), (8, 10, 12, 16), (7, 10, 12, 16), (3, 5, 0, 10)]
]
out["ks_tail"] = [
    {"n": n, "d": d, "p": float(stats.kstwo.sf(d, n))}
    for n, d in [(1, 0.4), (1, 0.7), (5, 0.1), (5, 0.15), (5, 0.3), (5, 0.6), (10, 0.05), (20, 0.12), (100, 0.08), (100, 0.15), (100, 0.25), (140, 0.13), (141, 0.05),
                 (200, 0.04), (200, 0.06), (200, 0.0975), (200, 0.2), (2000, 0.01), (2000, 0.02), (2000, 0.05), (50000, 0.002), (50000, 0.005), (200000, 0.001), (200000, 0.002)]
]
out["ks_uniform"] = []
for n in (3, 40, 200, 1000):
    p = rng.uniform(size=n) ** (1.0 if n != 40 else 1.5)
    r = stats.ks_1samp(p, stats.uniform.cdf, method="exact")
    out["ks_uniform"].append({"p": p.tolist(), "D": float(r.statistic), "p_exact": float(r.pvalue), "location": float(r.statistic_location)})
out["ks_exact"] = []
for n, m, shift in [(3, 4, 0.0), (8, 8, 1.0), (30, 41, 0.4), (60, 60, 2.0), (100, 300, 0.2)]:
    a, b = rng.normal(size=n), rng.normal(size=m) + shift
    r = stats.ks_2samp(a, b, method="exact")
    out["ks_exact"].append({"a": a.tolist(), "b": b.tolist(), "D": float(r.statistic), "p": float(r.pvalue)})
out["correlation"] = []
for n, ties in [(4, 0), (12, 0), (60, 4), (300, 0)]:
    a = rng.normal(size=n)
    b = 0.6 * a + rng.normal(size=n)
    if ties:
        a, b = np.round(a * ties) / ties, np.round(b * ties) / ties
    k = stats.kendalltau(a, b, method="asymptotic")
    s, p = stats.spearmanr(a, b), stats.pearsonr(a, b)
    ci = p.confidence_interval(0.95)
    z = stats.norm.ppf(0.975)
    fisher = lambda r, var, lost: [float(np.tanh(np.arctanh(r) + sign * z * np.sqrt(var / (n - lost)))) for sign in (-1, 1)] if n > lost else None
    out["correlation"].append({
        "a": a.tolist(), "b": b.tolist(),
        "kendall": float(k.statistic), "kendall_p": float(k.pvalue), "kendall_interval": fisher(k.statistic, 0.437, 4),
        "spearman": float(s.statistic), "spearman_p": float(s.pvalue), "spearman_interval": fisher(s.statistic, 1 + s.statistic**2 / 2, 3),
        "pearson": float(p.statistic), "pearson_p": float(p.pvalue), "pearson_interval": [float(ci.low), float(ci.high)],
    })
out["binomial"] = [
    {"k": k, "n": n, "p0": p, "p": float(stats.binomtest(k, n, p).pvalue),
     "wilson": [float(v) for v in stats.binomtest(k, n, p).proportion_ci(0.9, "wilson")],
     # not proportion_ci(0.9, "exact"), whose root finder stops at 2e-12
     "exact": [float(stats.beta.ppf(0.05, k, n - k + 1)) if k else 0.0, float(stats.beta.ppf(0.95, k + 1, n - k)) if k < n else 1.0]}
    for k, n, p in [(3, 10, 0.5), (7, 10, 0.5), (5, 10, 0.5), (0, 1, 0.3), (18, 20, 0.5), (10, 1000, 0.02), (40, 1000, 0.02), (18576, 37152, 0.49), (1, 100000, 1e-4)]
]
print(json.dumps(out, indent=1))
