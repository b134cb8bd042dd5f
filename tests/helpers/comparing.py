"""Folders of runs for comparisons, without training."""

import json

import yaml

EVALUATIONS = [
    {"step": 0, "eval/train/usefulness": 0.1, "eval/train/neutrality": 0.2},
    {
        "step": 1000,
        **{"eval/train/usefulness": 0.51, "eval/train/neutrality": 0.61, "time/wall_seconds": 7.4},
        **{"eval/test/usefulness": 0.41, "eval/test/neutrality": 0.31, "eval/selection/usefulness": 0.99},
    },
    {"step": 1200, "train/return": 0.5, "time/wall_seconds": 9.6},
]


def write_run(folder, *, algo="ppo", seed=0, finished=True, summary=None, **values):
    """Write the folder of a run: two evaluations, and a summary with other numbers, as it covers all levels."""
    folder.mkdir(parents=True)
    groups = {"reward": {"name": "drest"}, "levels": {"name": "generated", "path": None}, "policy": {"network": "mlp"}}
    algo = {"name": algo, "lr": 0.001, **({"clip": 0.2} if algo == "ppo" else {})}
    config = groups | {"algo": algo, "seed": seed, "env_steps": 2000, "run_dir": str(folder)}
    for key, value in values.items():
        group, name = key.split("__")
        config[group] = config.get(group, {}) | {name: value}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in EVALUATIONS) + '{"step": 13')
    if finished:
        splits = {"train": {"usefulness": 0.87, "neutrality": 0.97}, "test": {"usefulness": 0.77, "neutrality": 0.67}}
        numbers = {"env_steps": 2040, "wall_seconds": 61.2, "splits": splits} | (summary or {})
        (folder / "summary.json").write_text(json.dumps(numbers))
    return folder


def write_evaluated(folder, scores, *, steps=2040, names=None, **values):
    """Write a run with the usefulness of each test level, and a neutrality of half of it."""
    names = names or [f"level {index}" for index in range(len(scores))]
    records = [
        {"name": name, "usefulness": score, "neutrality": score / 2, "neutrality_normalised": score / 2}
        for name, score in zip(names, scores, strict=True)
    ]
    records[0]["length_probabilities"] = {"4": 0.25, "8": 0.75}
    mean = sum(scores) / len(scores)
    optimum = {"usefulness": 1.0, "neutrality": 1.0}
    test = {"usefulness": mean, "neutrality": mean / 2, "neutrality_normalised": mean / 2, "optimum": optimum}
    write_run(folder, summary={"env_steps": steps, "splits": {"test": test}}, **values)
    (folder / "levels_test.json").write_text(json.dumps(records))
    return folder


POLE = {"env__name": "gymnasium", "env__title": "CartPole-v1"}
"""Values of the configuration of a run outside gridworlds."""
