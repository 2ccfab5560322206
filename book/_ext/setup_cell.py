# Makes the course's library importable. In the course's own environment this cell finds nothing to do.
import importlib.util
import subprocess
import sys
from pathlib import Path

REPOSITORY = ""
NEEDED = ["scipy", "matplotlib", "platformdirs", "rich", "gguf", "tokenizers", "safetensors", "jinja2"]

if importlib.util.find_spec("specdec") is None:
    places = [Path.cwd(), *Path.cwd().parents, Path("course").absolute()]
    holds_library = [place for place in places if (place / "specdec" / "__init__.py").is_file()]
    try:
        if not holds_library and REPOSITORY:
            subprocess.run(["git", "clone", "--quiet", "--depth=1", REPOSITORY, "course"], check=True)
            holds_library = [Path("course").absolute()]
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if holds_library and missing:  # numpy and torch are never touched
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing], check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"not everything could be fetched ({problem}); what needs it will say so")
    sys.path[:0] = [str(place) for place in holds_library[:1]]
    if not holds_library:
        print("specdec is not installed here: open this notebook inside a copy of the course.")
