"""What is asked of a SuperLink with Flower's own command, and what is made of its answers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from partita.deploy.superlink import UNKNOWN_NODE, USED_KEY, SuperLink
from partita.errors import PartitaError

Answering = Callable[[str], SuperLink]


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answering:
    """A SuperLink for which the given script stands in the place of Flower's command."""

    def made(script: str) -> SuperLink:
        (command := tmp_path / "flwr").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        command.chmod(0o700)
        (certificate := tmp_path / "authority.crt").touch()
        monkeypatch.setattr("partita.deploy.superlink.program", lambda name: str(command))
        return SuperLink("127.0.0.1:1", certificate)

    return made


def test_what_travels_in_the_place_of_an_app_is_no_code(answering: Answering, tmp_path: Path) -> None:
    """One file, which names two apps that are installed everywhere."""
    answering(f"""cp -r "$2" {tmp_path}/sent && echo '{{"success": true}}'""").start_app(tmp_path / "socket")
    assert [path.name for path in (tmp_path / "sent").iterdir()] == ["pyproject.toml"]


def test_what_flower_says_is_one_line_without_colours(answering: Answering) -> None:
    with pytest.raises(PartitaError, match=r"did not do what was asked: ERROR: no such run$"):
        answering("printf '\\033[91mERROR\\033[0m: no\\n  such run' >&2; exit 1").unregister(1)


def test_a_site_that_is_not_registered_any_more_is_removed(answering: Answering) -> None:
    """The SuperLink may have lost its database: then its sites are removed and enrolled again."""
    answering(f"""echo '{{"success": false, "error-message": "[code: 24] {UNKNOWN_NODE} for account."}}'""").unregister(
        1
    )


def test_a_key_that_is_registered_without_its_site(answering: Answering, tmp_path: Path) -> None:
    """An enrolment was interrupted between the SuperLink and the operator's folder."""
    link = answering(f"""echo '{{"success": false, "error-message": "[code: 23] {USED_KEY}."}}'""")
    with pytest.raises(PartitaError, match=r"has the key .*a.pub already\. .* Ask the site for a new key"):
        link.register(tmp_path / "a.pub", "anna")


def test_flower_still_has_these_words() -> None:
    """A version that says it otherwise is noticed here."""
    catalog = pytest.importorskip("flwr.supercore.error.catalog")
    text = Path(catalog.__file__).read_text(encoding="utf-8")
    assert UNKNOWN_NODE in text
    assert USED_KEY in text
