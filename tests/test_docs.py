"""The documentation: links lead somewhere, code compiles, and the program of the page on extending runs."""

import ast
import re
import runpy
from pathlib import Path

import pytest

from gpde.outcomes import Outcome

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def name(page):
    return str(page.relative_to(ROOT))


def prose(page):
    """A page without its code, in which brackets mean other things."""
    return re.sub(r"`[^`\n]*`", "code", FENCED.sub("", page.read_text(encoding="utf-8")))


def anchors(page):
    """The names GitHub gives to the headings of a page."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert found.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(found), target


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=name)
def test_every_python_block_compiles(page):
    for block in blocks(page):
        assert ast.parse(block).body, "an empty block"


def test_the_program_of_the_page_on_extending_runs(tmp_path, capsys):
    script = tmp_path / "extending.py"
    script.write_text("\n\n".join(blocks(ROOT / "docs" / "extending.md")), encoding="utf-8")
    names = runpy.run_path(str(script))
    assert names["in_patches"].result.successful
    assert "functionals: u, Δu" in capsys.readouterr().out


def test_the_index_names_every_page_and_every_outcome_has_a_row():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [p.relative_to(ROOT / "docs") for p in (ROOT / "docs").rglob("*.md") if p.name != "README.md"]
    assert [str(p) for p in pages if f"({p.as_posix()})" not in index] == []
    advice = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert [o.name for o in Outcome if f"| `{o.name}` |" not in advice] == []
