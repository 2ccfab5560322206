"""Build the rendered book (placeholder of the final tool)."""
import subprocess, sys
sys.exit(subprocess.run([sys.executable, "-m", "jupyter_book.cli.main", "build", ".", "-W", "-n", "--keep-going"]).returncode)
