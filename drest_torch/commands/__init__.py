"""Shared code of the commands, and the command for language models."""
