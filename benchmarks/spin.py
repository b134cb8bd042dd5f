"""Two trainings with two threads each on the same cores, by how long OpenMP's threads spin.

Threads of torch that wait for each other spin, and take the core from the other training meanwhile.
``python -m benchmarks.spin`` prints the steps per second of one training alone and of two together, for each setting.
"""

from benchmarks.road import speed

SETTINGS = {"GOMP_SPINCOUNT=0": "0", "GOMP_SPINCOUNT=2000": "2000", "as libgomp has it": "infinite"}
WORDS = ("algo=ppo", "pictures=0", "evaluations=4", "test.paper=false", "threads=2", "env_steps=2000000")

if __name__ == "__main__":
    for name, spin in SETTINGS.items():
        alone, both = (speed(WORDS, several, GOMP_SPINCOUNT=spin) for several in (1, 2))
        print(f"{name:22} one {alone:8,.0f}   two together {both:8,.0f} steps/s", flush=True)
