"""The version, in a module without imports, for the build."""

__version__ = "0.1.0"
