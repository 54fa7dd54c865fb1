"""Models on Ray Serve: replicas are servers of the Open Inference Protocol behind Serve's HTTP and gRPC proxies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ray
from ort_lite_serve import Batching, Limits, Server, application
from ort_lite_serve.folders import load
from ray import serve

import ort_lite
from ort_lite.errors import InvalidArgument, hint
from ort_lite_ray.grpc import Called
from ort_lite_ray.host import share_weights
from ort_lite_ray.metrics import RayMetrics
from ort_lite_ray.scorer import Providers

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

GRPC = "ort_lite_ray.grpc.add_service"
"""The value for `grpc_servicer_functions` of Serve's gRPCOptions."""


def deploy(
    *models: str,
    providers: Providers = ("CPUExecutionProvider",),
    num_threads: int = 1,
    limits: Limits | None = None,
    batching: Batching | None = None,
    **options: Any,
) -> serve.Application:
    """Return the application for `serve.run`: replicas of these models, files and folders that each host needs.

    Models of one application scale together. To scale a model by itself, give it an application whose `route_prefix` is
    /v2/models/NAME. A replica reserves `num_threads` of the cluster's processors. `options` are those of `serve.deployment`:
    `num_replicas`, `autoscaling_config`, ... A replica that is removed answers its accepted requests within twice
    `limits.seconds`.
    """
    given = limits or Limits()
    chosen = {
        "max_ongoing_requests": given.queue,
        "max_queued_requests": given.queue,
        "graceful_shutdown_timeout_s": 2 * given.seconds,
        "ray_actor_options": {"num_cpus": num_threads},
    }
    deployment = serve.deployment(Replica).options(**(chosen | options))
    return deployment.bind(models, tuple(providers), num_threads, given, batching or Batching())


def build(arguments: dict[str, Any]) -> serve.Application:
    """Call `deploy` with the `args` of a config file of Serve: a list of `models`, mappings for `limits` and `batching`.

    Raises InvalidArgument for an unknown name.
    """
    known = ("models", "providers", "num_threads", "limits", "batching")
    for name in arguments:
        if name not in known:
            raise InvalidArgument(f"args has no {name!r}{hint(name, known)} It has {', '.join(known)}")
    given = dict(arguments)
    if not (models := given.pop("models", None)):
        raise InvalidArgument("args needs models, a list of files or folders")
    made: dict[str, Any] = {
        name: of(**given.pop(name)) for name, of in (("limits", Limits), ("batching", Batching)) if name in given
    }
    return deploy(*models, **made, **given)


@serve.ingress()
class Replica(Called):
    """A replica, which is ready when its models are."""

    def __init__(
        self, models: Sequence[str], providers: Providers, num_threads: int, limits: Limits, batching: Batching
    ) -> None:
        share_weights(str(ray.get_runtime_context().get_job_id()))
        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = num_threads

        def session(path: str) -> ort_lite.InferenceSession:
            return ort_lite.InferenceSession(path, options, providers=list(providers))

        self._server = Server(load(models, session), limits, batching, RayMetrics())
        super().__init__(self._server)

    def __serve_build_asgi_app__(self) -> "ASGIApp":
        return _with_whole_paths(application(self._server))

    def check_health(self) -> None:
        """Raise an error if the server no longer works, so that Serve replaces the replica."""
        if not self._server.works:
            raise RuntimeError("nobody takes requests from the queue")


def _with_whole_paths(app: "ASGIApp") -> "ASGIApp":
    """Return an application whose routes begin with /v2 even if Serve has a part of that as `route_prefix`."""

    async def call(scope: "Scope", receive: "Receive", send: "Send") -> None:
        root, found, _ = scope.get("root_path", "").partition("/v2")
        await app({**scope, "root_path": root} if found else scope, receive, send)

    return call
