"""The page's scripts are one in the page: what that asks of them."""

import re
from collections import Counter
from importlib.resources import files

from ort_lite.tools.view.page import SCRIPTS

_DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)
_IMPORTED = re.compile(r'^import .* from "\./(\w+)\.js";$', re.MULTILINE)


def _text(script: str) -> str:
    return files("ort_lite.tools.view").joinpath("page", f"{script}.js").read_text(encoding="utf-8")


def test_names_at_top_level_are_unique_in_all_scripts() -> None:
    """A function of a name that is there already would silently take its place."""
    names = Counter(name for script in SCRIPTS for name in _DECLARED.findall(_text(script)))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_scripts_are_behind_those_that_they_import() -> None:
    for place, script in enumerate(SCRIPTS):
        assert set(_IMPORTED.findall(_text(script))) <= set(SCRIPTS[:place]), script


def test_imports_fit_on_a_line_so_that_the_page_leaves_them_out() -> None:
    for script in SCRIPTS:
        assert len(re.findall(r"^import\b", _text(script), re.MULTILINE)) == len(_IMPORTED.findall(_text(script))), script
