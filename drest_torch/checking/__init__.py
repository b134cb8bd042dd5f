"""Check an environment before an agent is trained in it."""
