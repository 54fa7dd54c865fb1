"""The state of a playground: its models, the installed providers and the current job."""

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from ort_lite.plugins import plugins
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.arguments import LEVELS
from ort_lite.tools.cli.providers_command import row
from ort_lite.tools.playground.jobs import Jobs, PlaygroundJob
from ort_lite.tools.playground.models import models_of, titles
from ort_lite.tools.playground.playground_request import parse_request
from ort_lite.tools.playground.session_job import run_request


class Playground:
    """The playground of one command. All methods are thread-safe. Raises what `models_of` raises."""

    def __init__(self, arguments: Namespace) -> None:
        self.models: dict[str, Path] = models_of(arguments.models)
        self._providers = [row(name) for name in plugins.installed_providers()]
        self._given = arguments
        self._jobs = Jobs()

    def about(self) -> dict[str, Any]:
        """Return the choices that the page offers, and the defaults."""
        return {
            "models": titles(self.models),
            "providers": self._providers,
            "levels": LEVELS,
            "chosen": {
                "providers": self._default_providers(),
                "level": self._given.level,
                "threads": self._given.threads,
                "config": self._given.config,
                "shapes": self._given.shape,
                "values": self._given.value,
                "dims": self._given.dim,
                "seed": self._given.seed,
            },
        }

    def _default_providers(self) -> list[str]:
        """Return the providers of --providers, or those that sessions use by default."""
        return session_arguments.providers(self._given) or [row["name"] for row in self._providers if row["default"]]

    def start(self, body: bytes) -> dict[str, Any]:
        """Start the job that a request describes. Raises InvalidArgument, or Busy while another job runs."""
        request = parse_request(body, self.models, [each["name"] for each in self._providers])
        return self._jobs.start(
            partial(run_request, request=request, path=self.models[request.model], given=self._given)
        ).as_dict()

    def job(self) -> PlaygroundJob | None:
        """Return the job that was started last."""
        return self._jobs.last

    def close(self, seconds: float = 5.0) -> bool:
        """Cancel the current job. Returns True if it ended within `seconds`."""
        return self._jobs.close(seconds)
