"""The page in Chromium, by clicking through it, on a server of its own process; and how that process ends."""

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser
from partita import fasttext, fedper, from_clients, run
from partita.serving.export import export_models
from partita.serving.loaded import load
from web.served_models import serving

TOKEN = "a-token-of-many-letters"
# A white square of one pixel.
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII="
)


@pytest.fixture(scope="module")
def folder(kept: Path) -> Path:
    return kept


@pytest.fixture(scope="module")
def place(folder: Path) -> Iterator[str]:
    ended: list[int] = []
    with serving(str(folder), ended=ended) as address:
        yield address
    assert ended == [0], "SIGTERM ends it without an error"


def opened(page: Browser, place: str, *, client: str = "3", width: int = 1280, scheme: str = "light") -> None:
    page.open("about:blank")
    page.open(f"{place}#run=digits&client={client}", width=width, scheme=scheme)
    page.wait(f"document.getElementById('client-title').textContent === 'Client {client}'")
    page.wait("document.querySelectorAll('#scores .fill').length > 0")


def draw(page: Browser) -> None:
    x, y, width, _ = page.box("#pad")
    page.drag((x, y - width / 3), (x, y), (x, y + width / 3))


def text(page: Browser, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({selector!r}).innerText"))


def test_a_digit_is_drawn_and_both_models_answer(shown: Browser, place: str) -> None:
    opened(shown, place)
    assert "training samples" in text(shown, "#about-client")
    assert (
        shown.evaluate("[...document.querySelectorAll('#scores .label')].map(each => each.textContent)")[0]
        == "Personal"
    )
    assert shown.evaluate("document.querySelectorAll('#counts > div').length") == 10
    assert text(shown, "#no-counts") == ""
    assert shown.evaluate("document.getElementById('ask').disabled")
    draw(shown)
    assert not shown.evaluate("document.getElementById('ask').disabled")
    assert "8 pixels" in text(shown, "#seen-text")
    shown.click("#ask")
    shown.wait("document.querySelectorAll('.answer').length === 2")
    assert shown.evaluate("[...document.querySelectorAll('.answer h3')].map(each => each.textContent)") == [
        "Personal model",
        "Global model",
    ]
    shares = shown.evaluate(
        "[...document.querySelectorAll('.answer')].map(each => [...each.querySelectorAll('.value')]"
        ".reduce((sum, value) => sum + parseFloat(value.textContent), 0))"
    )
    assert shares == pytest.approx([100, 100], abs=1)
    assert text(shown, "#verdict")
    shown.click("#clear")
    assert shown.evaluate("document.getElementById('ask').disabled")
    assert shown.problems == []
    assert {url.partition("#")[0].rsplit("/", 1)[0] for url in shown.requested if url.startswith("http")} <= {
        place.rstrip("/"),
        f"{place}page",
        f"{place}clients",
    }


def test_columns_are_as_high_as_their_counts(shown: Browser, place: str) -> None:
    """Whatever the names of labels are: short, long, or too many to be written."""
    opened(shown, place)
    for labels in ([str(at) for at in range(6)], [f"a long name {at}" for at in range(6)], list(map(str, range(300)))):
        counts = [1 + at % 6 for at in range(len(labels))]
        heights = shown.evaluate(
            "import('/page/charts.js').then(({columns}) => {"
            f"const place = document.getElementById('counts'); columns(place, {labels}, {counts});"
            "return [place.scrollWidth <= place.clientWidth,"
            "[...place.querySelectorAll('i')].slice(0, 6).map(each => each.getBoundingClientRect().height)] })"
        )
        assert heights[0], "nothing is cut off"
        assert [height / heights[1][0] for height in heights[1]] == pytest.approx([1, 2, 3, 4, 5, 6], rel=0.02)


def test_labels_of_answers_are_read_on_a_phone(shown: Browser, place: str) -> None:
    """Two answers are beside each other, and no name is cut."""
    opened(shown, place, width=390)
    draw(shown)
    shown.click("#ask")
    shown.wait("document.querySelectorAll('.answer').length === 2")
    found = shown.evaluate(
        "import('/page/charts.js').then(({bars}) => [...document.querySelectorAll('.answer .bars')].map(place => {"
        "bars(place, [1, 0.5].map(share => ({label: 'drawer 10', share, text: `${100 * share}.0 %`})));"
        "return [[...place.querySelectorAll('.label')].every(each => each.scrollWidth <= each.clientWidth),"
        "...[...place.querySelectorAll('.fill')].map(each => each.getBoundingClientRect().width)] }))"
    )
    for whole, full, half in found:
        assert whole
        assert full == pytest.approx(2 * half, abs=0.5)
        assert full > 100
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390


def test_another_client_is_found_and_chosen(shown: Browser, place: str) -> None:
    opened(shown, place)
    shown.click("#find")
    shown.ask("Input.insertText", text="5")
    shown.wait("document.querySelectorAll('#clients label').length === 1")
    shown.click("#clients label")
    shown.wait("document.getElementById('client-title').textContent === 'Client 5'")
    assert "client=5" in shown.evaluate("location.hash")
    assert shown.problems == []


def test_numbers_are_pasted_and_wrong_ones_are_told(shown: Browser, place: str) -> None:
    opened(shown, place)
    shown.click("#tab-numbers")
    for given, reason in (
        ("1 2 three", "three is not a number"),
        ("1 2 3", "3 numbers were given; the model takes 64"),
    ):
        shown.evaluate("document.getElementById('numbers').value = ''")
        shown.click("#numbers")
        shown.ask("Input.insertText", text=given)
        shown.click("#ask")
        shown.wait("!document.getElementById('problem').hidden")
        assert reason in text(shown, "#problem")
    shown.evaluate("document.getElementById('numbers').value = Array(64).fill('0.5').join(', ')")
    shown.click("#ask")
    shown.wait("document.querySelectorAll('.answer').length === 2")
    assert shown.evaluate("document.getElementById('problem').hidden")


def test_a_picture_is_given(shown: Browser, place: str, tmp_path: Path) -> None:
    (tmp_path / "white.png").write_bytes(PICTURE)
    (tmp_path / "text.png").write_text("no picture")
    opened(shown, place)
    shown.click("#tab-picture")
    root = shown.ask("DOM.getDocument")["root"]["nodeId"]
    node = shown.ask("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    shown.ask("DOM.setFileInputFiles", files=[str(tmp_path / "text.png")], nodeId=node)
    shown.wait("!document.getElementById('problem').hidden")
    assert "text.png is not a picture" in text(shown, "#problem")
    shown.ask("DOM.setFileInputFiles", files=[str(tmp_path / "white.png")], nodeId=node)
    shown.wait("!document.getElementById('ask').disabled")
    shown.click("#ask")
    shown.wait("document.querySelectorAll('.answer').length === 2")


def test_it_works_by_keyboard(shown: Browser, place: str) -> None:
    opened(shown, place)
    shown.evaluate("document.getElementById('pad').focus()")
    for key in (" ", "ArrowDown", "ArrowDown", "ArrowDown"):
        shown.press(key)
    assert not shown.evaluate("document.getElementById('ask').disabled")
    shown.press("Escape")
    assert shown.evaluate("document.getElementById('ask').disabled")
    shown.evaluate("document.querySelector('#clients input:checked').focus()")
    shown.press("ArrowDown")
    shown.wait("document.getElementById('client-title').textContent === 'Client 4'")


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_and_dark_differs_from_light(shown: Browser, place: str, width: int) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        opened(shown, place, width=width, scheme=scheme)
        seen[scheme] = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        assert shown.evaluate("document.documentElement.scrollWidth") == width
    assert seen["light"] != seen["dark"]
    shown.click("#theme")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == seen["light"]


def test_runs_are_listed_with_what_is_wrong(shown: Browser, place: str) -> None:
    opened(shown, place)
    assert "partita resume" in text(shown, "#runs")
    assert shown.evaluate("document.querySelectorAll('#runs tr').length") == 2
    assert shown.evaluate("document.querySelector('#run option[value=half]').disabled")


def test_a_report_is_opened(shown: Browser, place: str) -> None:
    """In this tab, where the browser allows no other."""
    opened(shown, place)
    shown.evaluate("window.open = () => null")
    shown.click("#runs tr[data-run=digits] button[aria-label]")
    shown.wait("location.protocol === 'blob:' && document.readyState === 'complete'")
    assert "fedper" in shown.evaluate("document.body.textContent")
    assert shown.problems == []


def test_exported_models_and_a_text(shown: Browser, folder: Path, tmp_path: Path) -> None:
    """They say why labels are not counted; a text is typed, and answered by the name of its class."""
    export_models(load(folder / "digits"), tmp_path / "digits", clients=[3])
    texts = ["cheap pills", "win money", "money now", "buy now", "lunch today", "see you", "notes here", "a meeting"]
    rows = {who: ([f"{text} {who}" for text in texts], ["spam"] * 4 + ["ham"] * 4) for who in ("anna", "ben")}
    data = from_clients(rows, most_duplicates=1.0)
    made = run(fedper(), fasttext, data, rounds=1, folder=tmp_path / "unseen" / "run", on="inline", baselines=False)
    made.export(tmp_path / "mail")
    shutil.rmtree(tmp_path / "unseen")
    with serving(str(tmp_path)) as place:
        opened(shown, place)
        assert "--label-counts" in text(shown, "#no-counts")
        assert shown.evaluate("document.getElementById('counts').hidden")
        shown.click("#runs tr[data-run=mail] button")
        shown.wait("document.getElementById('client-title').textContent === 'Client anna'")
        shown.click("#text")
        shown.ask("Input.insertText", text="cheap money")
        shown.click("#ask")
        shown.wait("document.querySelectorAll('.answer').length === 1")
        assert text(shown, ".answer .says").startswith(("spam", "ham"))
        assert shown.problems == []


def test_a_token_is_asked_for(shown: Browser, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with serving(str(folder / "digits"), "--token-file", str(tmp_path / "token")) as place:
        shown.open("about:blank")
        shown.open(place)
        shown.wait("!document.getElementById('entry').hidden")
        shown.click("#token")
        shown.ask("Input.insertText", text="wrong")
        shown.click("#entry button")
        shown.wait("document.getElementById('main').hidden")
        shown.evaluate("document.getElementById('token').value = ''")
        shown.click("#token")
        shown.ask("Input.insertText", text=TOKEN)
        shown.click("#entry button")
        shown.wait("!document.getElementById('main').hidden")
        shown.wait("document.querySelectorAll('#scores .fill').length > 0")
