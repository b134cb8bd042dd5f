"""Measure two trainings that share their cores, for several times that OpenMP's threads wait actively.

A thread that waits for others keeps its core busy for a while, which takes time from the other training.
``python -m benchmarks.spin`` prints the steps per second of one training alone and of two together, for each setting.
"""

from benchmarks.road import train

SETTINGS = {"GOMP_SPINCOUNT=0": "0", "GOMP_SPINCOUNT=2000": "2000", "libgomp's default": "infinite"}
WORDS = ("algo=ppo", "pictures=0", "evaluations=4", "test.paper=false", "threads=2", "env_steps=2000000")

if __name__ == "__main__":
    for name, spin in SETTINGS.items():
        one, two = (sum(speed.steps for speed in train(WORDS, count=count, GOMP_SPINCOUNT=spin)) for count in (1, 2))
        print(f"{name:22} one {one:8,.0f}   two together {two:8,.0f} steps/s", flush=True)
