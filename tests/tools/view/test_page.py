"""The page's scripts as one: what a browser would not complain about, and yet be wrong."""

import re
from collections import Counter
from importlib.resources import files

from ort_lite.tools.view.page import SCRIPTS

PAGE = files("ort_lite.tools.view").joinpath("page")
TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function\*?|class|const|let) (\w+)", re.MULTILINE)
IMPORT = re.compile(r'^import \{ (.*) \} from "\./(\w+)\.js";$', re.MULTILINE)


def script(name: str) -> str:
    return PAGE.joinpath(f"{name}.js").read_text(encoding="utf-8")


def test_names_are_unique() -> None:
    """Of two functions of one name the later would be both."""
    counts = Counter(name for module in SCRIPTS for name in TOP_LEVEL.findall(script(module)))
    assert counts.total() > 100
    assert [name for name, count in counts.items() if count > 1] == []


def test_what_is_imported_is_exported_and_before() -> None:
    """An import fits on a line, so that the page leaves it out."""
    for number, module in enumerate(SCRIPTS):
        found = IMPORT.findall(script(module))
        assert len(re.findall(r"^import\b", script(module), re.MULTILINE)) == len(found), module
        for names, source in found:
            assert source in SCRIPTS[:number], f"{module} imports from {source}"
            for name in names.split(", "):
                assert re.search(rf"^export .*\b{name}\b", script(source), re.MULTILINE), (
                    f"{module}: {source} exports no {name}"
                )


def test_every_module_is_in_the_page() -> None:
    found = {file.name.removesuffix(".js") for file in PAGE.iterdir() if file.name.endswith(".js")}
    assert found == set(SCRIPTS)
