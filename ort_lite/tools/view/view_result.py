"""The result of `InferenceSession.view()`: a document that can be saved as a page and displays itself in a notebook."""

import json
import os
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ort_lite.record import Record
from ort_lite.tools.view.document import Document
from ort_lite.tools.view.page import page_of

if TYPE_CHECKING:
    from ort_lite.graph.model import Model
    from ort_lite.load.source import ModelSource


class View(Record):
    """A document and the page that shows it."""

    document: Document

    def beside(self, other: "View") -> "View":
        """Return this view with another one to compare it with. Values that are equal in both are stored once."""
        known = self.document["values"]
        theirs: Document = {**other.document}
        theirs["values"] = {key: value for key, value in theirs["values"].items() if known.get(key) != value}
        theirs.pop("other", None)
        return View({**self.document, "other": theirs})

    @property
    def html(self) -> str:
        """Return the page as one file that needs no network: 1.2 MB plus the document."""
        return page_of(self.document)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page. Raises OSError if that fails."""
        file = Path(path)
        file.write_text(self.html, encoding="utf-8")
        return file

    def save_model_explorer(self, path: str | os.PathLike[str]) -> Path:
        """Write JSON that Model Explorer opens. Raises OSError if that fails."""
        from ort_lite.tools.view.model_explorer import model_explorer_json

        file = Path(path)
        file.write_text(model_explorer_json(self.document), encoding="utf-8")
        return file

    def save_trace(self, path: str | os.PathLike[str]) -> Path:
        """Write the run of the timeline for Perfetto. Raises InvalidArgument if no run was recorded, and OSError."""
        from ort_lite.errors import InvalidArgument
        from ort_lite.tools.view.timeline import trace_of

        timeline = self.document["timeline"]
        if timeline is None:
            raise InvalidArgument(
                "the view has no timeline; session.view(feeds) records a run, and view(profile=FILE) reads one"
            )
        return trace_of(timeline).save(path)

    def annotate(self, model: "ModelSource | Model", path: str | os.PathLike[str]) -> Path:
        """Write the model with the provider of each node and the reasons, as metadata that Netron shows.

        `model` is the one that this view shows. Weights are stored inside, even if they were in other files. Raises what loading
        the model raises, InvalidProtobuf above 2 GiB, and OSError.
        """
        from ort_lite.load.load import load
        from ort_lite.load.proto import serialize
        from ort_lite.tools.view.netron_annotation import annotate_model

        file = Path(path)
        file.write_bytes(serialize(annotate_model(load(model), self.document)))
        return file

    def to_json(self, indent: int | None = None) -> str:
        """Return the document as JSON."""
        return json.dumps(self.document, indent=indent, allow_nan=False)

    def _repr_html_(self) -> str:
        """Return the page in its own frame, so that its styles and scripts do not affect the notebook."""
        frame = 'style="width: 100%; height: 640px; border: 1px solid #8888" sandbox="allow-scripts"'
        return f'<iframe srcdoc="{escape(self.html)}" title="{escape(self.document["title"])}" {frame}></iframe>'
