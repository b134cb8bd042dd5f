"""Measure two training runs that share their cores, for several durations of active waiting of OpenMP's threads.

A waiting thread keeps its core busy for a while, which takes time from the other run. ``python -m benchmarks.spin``
prints the steps per second of a single run and of two simultaneous runs for each setting.
"""

from benchmarks.road import train

SETTINGS = {"GOMP_SPINCOUNT=0": "0", "GOMP_SPINCOUNT=2000": "2000", "libgomp's default": "infinite"}
WORDS = ("algo=ppo", "pictures=0", "evaluations=4", "test.paper=false", "threads=2", "env_steps=2000000")

if __name__ == "__main__":
    for name, spin in SETTINGS.items():
        single, double = (train(WORDS, count=count, GOMP_SPINCOUNT=spin) for count in (1, 2))
        alone, together = (sum(speed.steps for speed in speeds) for speeds in (single, double))
        print(f"{name:22} one {alone:8,.0f}   two together {together:8,.0f} steps/s", flush=True)
