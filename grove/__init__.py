"""Grove: a Kubernetes operator that runs a whole AI inference system from one object."""

__version__ = "0.1.0"
