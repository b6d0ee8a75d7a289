"""What people are told to install is what is ours."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FROM_AN_INDEX = re.compile(r"(pip install|npm install|npm:)[ '\"]*kith-social")


def test_nobody_is_told_to_install_from_an_index_what_is_on_none() -> None:
    """PyPI and npm have no package of ours: what came from there under its name would be a stranger's."""
    folders = (ROOT / "src", ROOT / "docs", ROOT / "clients")
    files = [ROOT / "README.md", *(path for of in folders for kind in ("*.py", "*.md") for path in of.rglob(kind))]
    ours = [path for path in files if "node_modules" not in path.parts]
    assert len(ours) > 100
    assert not [path.name for path in ours if FROM_AN_INDEX.search(path.read_text())]
