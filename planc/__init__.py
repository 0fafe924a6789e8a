"""planc compiles declarative model plans for diffusers into scripts that run."""

__version__ = "0.1.0"
