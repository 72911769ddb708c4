"""A Kubernetes cluster on this machine, for demos and tests: real control plane, fake nodes, no containers."""
