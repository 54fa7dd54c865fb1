"""Random tests draw more and other examples under `pytest --hypothesis-profile=thorough tests/conformance`."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "thorough",
    max_examples=2000,
    database=None,
    deadline=None,  # some examples compile a kernel
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
