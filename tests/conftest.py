"""For all tests."""

from hypothesis import HealthCheck, settings

# No test measures time: on a busy machine hypothesis would take a slow example for a failure.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")
