"""The install instructions name no package that Kith has not published."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FROM_AN_INDEX = re.compile(r"(pip install|npm install|npm:)[ '\"]*kith-social")


def test_no_instruction_installs_kith_from_pypi_or_npm() -> None:
    """Kith has no package on PyPI or npm. A package there under its name would be a stranger's."""
    folders = (ROOT / "src", ROOT / "docs", ROOT / "clients")
    files = [ROOT / "README.md", *(path for of in folders for kind in ("*.py", "*.md") for path in of.rglob(kind))]
    ours = [path for path in files if "node_modules" not in path.parts]
    assert len(ours) > 100
    assert not [path.name for path in ours if FROM_AN_INDEX.search(path.read_text())]
