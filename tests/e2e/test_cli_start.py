"""The start of the `kith` command: signals, and what it imports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kith.run.serving.processes import command_line


def test_ctrl_c_before_a_command_is_loaded_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "kith", "serve"]
    run = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (130, b"")


def test_sigterm_ends_process_1_of_a_container_while_it_starts(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    alone = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no PID namespaces")
    command = [*alone, sys.executable, "-m", "kith", "serve"]
    run = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (143, b"")


def test_a_process_started_again_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('this is not ours')\n")
    path = os.pathsep.join(str(Path(one).absolute()) for one in sys.path if one)
    environment = os.environ | {"PYTHONPATH": path}
    run = subprocess.run(command_line("settings"), cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
