"""How do pages that are made from the code enter the site? MkDocs calls these functions; see mkdocs.yml."""

import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from manual import commands, methods, names, settings
from partita.experiment.settings.schema import schema

METHODS = "methods"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Methods and pages of the guide list themselves, so that a new file is in the menu at once."""
    nav: list[Any] = config.nav or []
    pages = [f"{METHODS}/index.md", *(f"{METHODS}/{name}.md" for name in methods.names())]
    told = json.dumps(nav)
    others = [path.name for path in sorted(Path(config.docs_dir).glob("*.md")) if f'"{path.name}"' not in told]
    for entry in nav:
        if "Methods" in entry:
            entry["Methods"] = pages
        elif "Guide" in entry:
            entry["Guide"] += others
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    texts = Path(config.docs_dir) / METHODS
    made = {f"{METHODS}/{name}.md": methods.page(name, _text(texts / f"{name}.md")) for name in methods.names()}
    made[f"{METHODS}/index.md"] = methods.index(texts)
    made["reference/commands.md"] = commands.page()
    made["reference/experiment-file.md"] = settings.page()
    made["reference/python.md"] = names.page()
    made["contributing.md"] = _from_root(Path(config.config_file_path).parent / "CONTRIBUTING.md")
    made["changelog.md"] = _from_root(Path(config.config_file_path).parent / "CHANGELOG.md")
    made["reference/experiment.schema.json"] = json.dumps(schema(), indent=1)
    for path, content in made.items():
        if before := files.get_file_from_path(path):
            files.remove(before)
        files.append(File.generated(config, path, content=content))
    return files


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _from_root(path: Path) -> str:
    """A page that stands beside the folder docs, with its links as they are within."""
    return path.read_text(encoding="utf-8").replace("](docs/", "](")
