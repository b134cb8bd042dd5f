"""The campaign against runs, files and commands: ``python -m tests.chaos`` (docs/explanation/reliability.md)."""
