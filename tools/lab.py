"""JupyterLab on a working copy of `notebooks/` in `workspace/`, which git ignores and nothing else reads.

A notebook that is already in `workspace/` stays as the student left it; only missing files are copied.
The copies carry no jupytext pairing, so saving one writes that one file and nothing else.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PORT = 8888  # the port that the book's links to JupyterLab name


def copy_missing(source: Path, target: Path) -> list[Path]:
    """Copy every file below `source` that `target` lacks; return the new files, relative to `target`."""
    new = []
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_dir() or any(part.startswith((".", "__")) for part in relative.parts):
            continue
        copy = target / relative
        if copy.exists():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb":
            notebook = json.loads(path.read_text(encoding="utf-8"))
            notebook["metadata"].pop("jupytext", None)
            copy.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        else:
            shutil.copyfile(path, copy)
        new.append(relative)
    return new


def main(arguments: list[str]) -> int:
    workspace = ROOT / "workspace"
    new = copy_missing(ROOT / "notebooks", workspace)
    print(f"{len(new)} new file(s) copied into {workspace}; what was there already is untouched", flush=True)
    command = [sys.executable, "-m", "jupyterlab", f"--port={PORT}", *arguments]
    # Nothing leaves the machine: no news feed, no look for updates.
    command += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    # Without jupytext's contents manager, a copy cannot be paired with a source by accident either.
    command += [
        "--ServerApp.contents_manager_class=jupyter_server.services.contents.largefilemanager.AsyncLargeFileManager"
    ]
    return subprocess.run(command, cwd=workspace).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
