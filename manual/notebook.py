"""Execute the notebook of the examples and keep its outputs: `python -m manual.notebook` (nbclient and ipykernel)."""

import os
import tempfile
from pathlib import Path
from typing import Any

BOOK = Path(__file__).resolve().parents[1] / "examples" / "first_steps.ipynb"


def execute(path: Path) -> None:
    """Run all cells in an empty folder; times and names of this machine are not kept."""
    import nbformat
    from nbclient import NotebookClient

    book: Any = nbformat.read(path, as_version=4)
    # Progress has another length on every machine.
    os.environ["PARTITA_WORKERS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, timeout=600, resources={"metadata": {"path": folder}}, record_timing=False).execute()
    book.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(book, path)


if __name__ == "__main__":
    execute(BOOK)
    print(f"Executed: {BOOK.name}")
