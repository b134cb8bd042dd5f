"""What a run and a judge are built from, by configuration: levels, networks, evaluators and checkpoints."""
