"""Hooks through which `compat`, `tools` and `params`, which the core never imports, extend the core.

Each hook is a function given by its dotted path, as the built-in providers are. Its module is imported on first use, so that a
session that is neither viewed nor verified loads no viewer and no verifier. A program may replace a hook by a function of its
own (`HOOKS["view"] = "my_viewer:view_of"`).
"""

from importlib import import_module
from typing import Any

HOOKS = {
    "folded": "ort_lite.tools.view.tables:collapsible_table",  # (summary, columns, rows, numbers) -> HTML
    "load_tensor": "ort_lite.params.params:load_tensor",  # (source, no_copy) -> NDArray
    "node_events": "ort_lite.compat.node_events:node_events",  # (trace, assignment, since) -> events for a finished profile
    "notebook": "ort_lite.tools.view.notebook:html_of",  # (title, explanation, inputs, outputs) -> HTML
    "noted": "ort_lite.tools.view.tables:collapsible_list",  # (what, lines) -> HTML
    "params": "ort_lite.params.params:load_params",  # bytes of a parameter file -> arrays by name
    "save_tensor": "ort_lite.params.params:save_tensor",  # (array, dtype, lanes, target) -> bytes
    "verification": "ort_lite.tools.verify.settings:settings",  # (verify, word for the defaults) -> tolerances
    "verify": "ort_lite.tools.verify.watch:verify_run",  # (ready, options, verify, call, tell) -> outputs
    "view": "ort_lite.tools.view.viewing:view_of",  # (session, feeds, profile) -> View
}


def hook(name: str) -> Any:
    """Return the function of a hook. Raises the errors of importing its module."""
    module, _, function = HOOKS[name].partition(":")
    return getattr(import_module(module), function)
