"""The operator's page in Chromium, and what its server answers."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from browser import Browser
from deploy.watched import NAMES, go_on, made_run
from partita.deploy import DEPLOYMENT
from partita.web.operator import application
from web.asking import asking
from web.served_models import COMMAND


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_run(tmp_path_factory.mktemp("federation"))


@contextmanager
def shown_at(run: Path) -> Iterator[str]:
    """The command as a process of its own."""
    command = [*COMMAND, "federate", "status", str(run), "--web", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            found = re.search(r"http://\S+/", process.stderr.readline())
            assert found
            yield found[0]
        finally:
            process.terminate()
            assert "Stopped." in process.stderr.read()
    assert process.returncode == 0


def text(page: Browser, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({selector!r}).innerText"))


def test_the_page_follows_a_federation(shown: Browser, run: Path) -> None:
    with shown_at(run) as place:
        shown.open(place)
        shown.wait("!document.getElementById('main').hidden")
        assert text(shown, "#state") == "done"
        assert text(shown, "#rounds") == "4 of 4"
        assert shown.evaluate("[...document.querySelectorAll('.site')].map(each => each.textContent)") == list(NAMES)
        assert shown.evaluate("document.querySelectorAll('#sites b').length") == 0, "names are text"
        assert shown.evaluate("document.querySelectorAll('#scores .point').length") == 4
        assert shown.evaluate("document.querySelectorAll('#scores .one').length") == 4
        assert shown.evaluate("document.querySelectorAll('#seconds .bar').length") == 4
        assert "the site is not connected" in text(shown, "#refusals")
        # What happens later is shown without a reload.
        go_on(run, anna=1000, ben=1000)
        shown.wait("document.querySelectorAll('.is-asked, .is-late').length === 2")
        assert text(shown, "#connected") == "2 of 4"
        assert shown.problems == []
        assert {url.removeprefix(place).partition("?")[0] for url in shown.requested if url.startswith("http")} == {
            "",
            "page/page.css",
            "page/page.js",
            "page/chart.js",
            "status",
        }
        for width, scheme in ((390, "dark"), (1280, "light")):
            shown.open(place, width=width, scheme=scheme)
            shown.wait("!document.getElementById('main').hidden")
            assert shown.evaluate("document.documentElement.scrollWidth") == width
    shown.wait("!document.getElementById('problem').hidden")
    assert "has ended" in text(shown, "#problem")


def test_what_the_server_answers(run: Path, tmp_path: Path) -> None:
    with asking(application(run)) as client:
        page = client.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert client.get("/status").json()["rounds"] == 4
        assert client.get("/page/other.js").status_code == 404
        assert client.post("/status").status_code == 405
        assert client.get("/status", headers={"host": "attacker.example"}).status_code == 421
    (tmp_path / DEPLOYMENT).write_text("{}", encoding="utf-8")
    with asking(application(tmp_path)) as client:
        answer = client.get("/status")
    assert (answer.status_code, "Cannot read the plan" in answer.json()["detail"]) == (503, True)
