"""Kubernetes' own scheduler, `default-scheduler`."""

from grove.schedulers.backend import Backend


class DefaultScheduler(Backend):
    """Pods are placed one by one; the gates alone see to it that a gang starts together."""
