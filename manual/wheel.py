"""Does the wheel work without the tree? `python -m manual.wheel [PYTHON...]` builds it and tries it.

Each Python gets an environment of its own, with the versions of constraints.txt. The commands run in an empty folder.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    "partita --version",
    "partita doctor",
    "partita list algorithms",
    "partita new mine.toml --algorithm fedalt --split iid",
    "partita run mine.toml rounds=2 data.split.clients=3 --output run --baselines quick",
    "partita show run",
    "partita report run",
    "partita export run --models models",
    "partita recipe list",
    "partita schema --output schema.json",
)
PROGRAM = """
import partita
model = partita.load_exported("models").model("1")
assert "site-packages" in partita.__file__, partita.__file__
print("loaded", model.about)
"""


def build(folder: Path) -> Path:
    """The wheel of the tree."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    [found] = folder.glob("partita-*.whl")
    return found


def try_out(wheel: Path, python: str, folder: Path) -> None:
    """Install the wheel into an empty environment and use it from an empty folder."""
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
    place, work = folder / "venv" / "bin", folder / "work"
    work.mkdir()
    options = ("--quiet", "--no-compile", "--disable-pip-version-check", "--constraint", str(ROOT / "constraints.txt"))
    subprocess.run([str(place / "pip"), "install", *options, str(wheel)], check=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    for line in COMMANDS:
        name, *arguments = line.split()
        subprocess.run([place / name, *arguments], check=True, cwd=work, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run([place / "python", "-c", PROGRAM], check=True, cwd=work, env=environment)


def main(pythons: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        wheel = build(Path(place))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        for number, python in enumerate(pythons):
            (folder := Path(place) / str(number)).mkdir()
            try_out(wheel, python, folder)
            version = subprocess.run([python, "--version"], check=True, capture_output=True, text=True).stdout.strip()
            print(f"{version}: {len(COMMANDS)} commands and a model, without the tree")


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable])
