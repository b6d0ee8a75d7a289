"""The signature checks of docs/webhooks.md, in Python and Node, accept Kith's signatures and nothing else."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from javascript import needs_node, node

from kith.webhooks.signature import sign

GUIDE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
SECRET, BODY = "whsec_of-this-test", '{"changes": ["ü"]}'.encode()


def cases() -> list[tuple[str, str, bytes, bool]]:
    """(secret, signature, body, whether it must be accepted), made now."""
    now = int(time.time())
    ours = sign(SECRET, BODY, now)
    return [
        (SECRET, ours, BODY, True),
        (SECRET, sign(SECRET, BODY, now - 200), BODY, True),
        (SECRET + "x", ours, BODY, False),
        (SECRET, ours, BODY + b" ", False),
        (SECRET, sign(SECRET, BODY, now - 400), BODY, False),
        (SECRET, sign(SECRET, BODY, now + 400), BODY, False),
        (SECRET, ours.replace(f"t={now}", f"t={now + 1}"), BODY, False),
        (SECRET, ours[:-1], BODY, False),
        (SECRET, ours.partition(",")[0], BODY, False),
        (SECRET, ours.partition(",")[2], BODY, False),
        (SECRET, f"t={now},v1=é", BODY, False),
        (SECRET, "", BODY, False),
    ]


def block(language: str, says: str) -> str:
    """The example in this language that contains these words."""
    (found,) = (code for code in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL) if says in code)
    return str(found)


def test_the_check_in_python_accepts_only_valid_signatures() -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python", "def is_ours"), "docs/webhooks.md", "exec"), names)
    asked = cases()
    assert [names["is_ours"](*given) for *given, _ in asked] == [taken for *_, taken in asked]


@needs_node
def test_the_check_in_node_accepts_only_valid_signatures(tmp_path: Path) -> None:
    script, given = tmp_path / "check.mjs", cases()
    asked = json.dumps([[secret, signature, body.decode()] for secret, signature, body, _ in given])
    script.write_text(
        block("javascript", "function isOurs")
        + f"\nconst asked = {asked};"
        + "\nconsole.log(JSON.stringify(asked.map(([s, given, body]) => isOurs(s, given, Buffer.from(body)))));"
    )
    run = node(str(script), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [taken for *_, taken in given]
