"""What the commands of the package share, and the command of language models."""
