#!/usr/bin/env python3
"""Writes goodput_quantiles.c: the distributions of the goodput runs as integer tables.

    controller/sim/goodput_quantiles.py > controller/sim/goodput_quantiles.c

Each table has 1,024 equally likely entries: the mean of the distribution inside each 1/1024 of
probability, found from the integral of its quantile function, in 1/65536. So the mean of the table
is the mean of the distribution, also of its tail, and no floating point is left for the simulator.
"""

import math
from statistics import NormalDist

ENTRIES = 1024
ONE = 65536


def exponential_below(p):
    """Integral of -ln(1 - u) from 0 to p: mean 1."""
    return p if p >= 1.0 else (1 - p) * math.log(1 - p) + p


def lower_gamma(a, x):
    """Regularised lower incomplete gamma function, by its series; x is below 50 here."""
    term = 1.0 / a
    total = term
    n = 0
    while term > total * 1e-17:
        n += 1
        term *= x / (a + n)
        total += term
    return total * math.exp(-x + a * math.log(x) - math.lgamma(a)) if x > 0 else 0.0


def weibull_below(shape):
    """The same for a Weibull distribution of this shape, scaled to mean 1."""
    return lambda p: 1.0 if p >= 1.0 else lower_gamma(1 + 1 / shape, -math.log(1 - p)) if p else 0.0


def lognormal_below(sigma, mean):
    """The same for a lognormal one of this sigma, with this mean."""
    normal = NormalDist()

    def below(p):
        if p <= 0.0 or p >= 1.0:
            return mean if p >= 1.0 else 0.0
        return mean * normal.cdf(normal.inv_cdf(p) - sigma)

    return below


def median_one(sigma):
    return lognormal_below(sigma, math.exp(sigma * sigma / 2))


TABLES = (
    ("goodput_exponential", "gaps of a Poisson process, mean 1", exponential_below),
    ("goodput_weibull_07", "gaps that come in bursts: Weibull, shape 0.7, mean 1",
     weibull_below(0.7)),
    ("goodput_lemon", "how much likelier a node fails: lognormal, sigma 0.75, mean 1",
     lognormal_below(0.75, 1.0)),
    ("goodput_repair_hardware", "repair time over its median: lognormal, sigma 1.28",
     median_one(1.28)),
    ("goodput_repair_network", "the same, sigma 1.60", median_one(1.60)),
    ("goodput_repair_facility", "the same, sigma 1.22", median_one(1.22)),
)


def main():
    print("/* goodput_quantiles.c: written by goodput_quantiles.py; do not edit. */")
    print('#include "controller/sim/goodput_quantiles.h"')
    print("\n/* clang-format off */")
    for name, text, below in TABLES:
        values = [
            round((below((i + 1) / ENTRIES) - below(i / ENTRIES)) * ENTRIES * ONE)
            for i in range(ENTRIES)
        ]
        print(f"\n/* {text} */")
        print(f"const uint32_t {name}[GOODPUT_QUANTILES] = {{")
        for i in range(0, ENTRIES, 8):
            print("    " + " ".join(f"{v}," for v in values[i:i + 8]))
        print("};")


if __name__ == "__main__":
    main()
