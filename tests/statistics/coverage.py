"""Coverage of intervals over seeds and levels, by simulation: ``python -m tests.statistics.coverage [samples]``."""

import sys

import numpy as np

from drest_torch.statistics.aggregates import AGGREGATES, aggregate_interval
from drest_torch.statistics.bootstrap import over_seeds_and_levels
from drest_torch.statistics.intervals import Interval, t_interval


def crossed(rng, shape, sds):
    """Return normal values [S, L] with mean 0.5; ``sds`` are the standard deviations of seeds, levels and noise."""
    seed_sd, level_sd, noise_sd = sds
    seeds, levels = shape
    values = seed_sd * rng.normal(size=(seeds, 1)) + level_sd * rng.normal(size=levels)
    return 0.5 + values + noise_sd * rng.normal(size=shape)


def failing(rng, shape):
    """Return values 0 or 1 whose probability is the product of a seed's and a level's."""
    seeds, levels = shape
    return (rng.random(shape) < rng.beta(8, 2, size=(seeds, 1)) * rng.beta(8, 2, size=levels)) * 1.0


def collapsing(rng, shape):
    """Return values around 0.95, or around 0.5 for a fifth of the seeds."""
    collapsed = rng.random((shape[0], 1)) < 0.2
    values = np.where(collapsed, 0.0, 0.45) + crossed(rng, shape, (0.01, 0.02, 0.02))
    return values.clip(0, 1)


WORLDS = {
    "mostly of levels": (lambda rng, shape: crossed(rng, shape, (0.02, 0.1, 0.05)), 0.5),
    "mostly of seeds": (lambda rng, shape: crossed(rng, shape, (0.1, 0.02, 0.05)), 0.5),
    "noise alone": (lambda rng, shape: crossed(rng, shape, (0, 0, 0.1)), 0.5),
    "each level fails": (failing, 0.64),
    "a fifth collapses": (collapsing, 0.8 * 0.95 + 0.2 * 0.5),
}


def percentile(values):
    """Return the plain pigeonhole bootstrap, for comparison."""
    rng = np.random.default_rng(0)
    means, levels = values.mean(1), values.mean(0)
    resampled = rng.choice(means, (1000, len(means))).mean(1) + rng.choice(levels, (1000, len(levels))).mean(1)
    low, high = np.quantile(resampled - means.mean(), (0.025, 0.975))
    return Interval(means.mean(), low, high)


METHODS = {
    "this": lambda values: over_seeds_and_levels(values, resamples=1000),
    "t": lambda values: t_interval(values.mean(1)),
    "percentile": percentile,
    "median": lambda values: aggregate_interval([values], AGGREGATES["median"], resamples=500),
    "iqm": lambda values: aggregate_interval([values], AGGREGATES["iqm"], resamples=500),
    "bounds": lambda values: over_seeds_and_levels(values.clip(0, 1), bounds=(0, 1), resamples=1000),
}


def coverage(world, method, *, samples, shape=(5, 100)):
    """Return how often the interval of the method contains the true mean."""
    values, truth = WORLDS[world]
    rng = np.random.default_rng(1)
    intervals = [METHODS[method](values(rng, shape)) for _ in range(samples)]
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


if __name__ == "__main__":
    SAMPLES = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(f"{'':20}", *(f"{method:>10}" for method in METHODS))
    for name in WORLDS:
        print(f"{name:20}", *(f"{coverage(name, method, samples=SAMPLES):10.3f}" for method in METHODS), flush=True)
