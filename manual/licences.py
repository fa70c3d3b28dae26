"""Under which licences are the packages that this one needs? `python -m manual.licences` writes docs/licences.md."""

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, metadata
from pathlib import Path

from .markdown import code, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "licences.md"
HEAD = """# Licences of dependencies

Partita is Apache-2.0. It contains no code of others; these packages are installed beside it. The table is made from the
packages' own metadata, of the versions in `constraints.txt`, by `python -m manual.licences`. Packages of an extra are
installed only with that extra.

"""
LONGEST = 60


def page() -> str:
    always = needed_by("partita", "")
    rows = [(name, "always", *_facts(name)) for name in sorted(always, key=str.lower)]
    for extra in sorted(metadata("partita").get_all("Provides-Extra") or ()):
        found = needed_by("partita", extra) - always
        rows += [(name, code(extra), *_facts(name)) for name in sorted(found, key=str.lower)]
        absent = sorted(name for name, of in _requirements("partita") if of == extra and not _is_installed(name))
        rows += [(name, code(extra), "", "not installed where this table was made") for name in absent]
    return HEAD + table(("package", "installed", "version", "licence"), rows)


def needed_by(name: str, extra: str) -> set[str]:
    """Every package that is installed with this one, directly or not."""
    found: set[str] = set()
    ahead = [each for each, of in _requirements(name) if of in ("", extra)]
    while ahead:
        each = ahead.pop()
        if each not in found and _is_installed(each):
            found.add(each)
            ahead += [other for other, of in _requirements(each) if not of]
    return found


def _requirements(name: str) -> Iterator[tuple[str, str]]:
    for line in distribution(name).requires or ():
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        other_system = re.search(r"(sys_platform|platform_system) == ['\"](win|Windows|darwin|Darwin)", marker)
        if not other_system:
            plain = re.split(r"[^\w.-]", requirement.strip())[0]
            yield re.sub(r"[-_.]+", "-", plain).lower(), extra[1] if extra else ""


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _facts(name: str) -> tuple[str, str]:
    """Version and licence: the SPDX expression, or the classifiers, or the first words of the field."""
    told = metadata(name).json
    classified = [each.rpartition(" :: ")[2] for each in told.get("classifier", ()) if "License ::" in each]
    words = " ".join(str(told.get("license", "")).split())
    brief = words if len(words) <= LONGEST else ""
    licence = str(told.get("license_expression", "")) or ", ".join(classified) or brief or "see the package"
    return str(told["version"]), licence


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Written: {PAGE.name}")
