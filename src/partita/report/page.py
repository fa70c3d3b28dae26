"""What holds a report together? One file with its style and script inside, which asks for nothing from elsewhere."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from .figure import Section
from .markup import Html, tag


def page(title: str, subtitle: str, banners: Sequence[Html], sections: Sequence[Section], footer: str) -> str:
    style, script = _file("report.css"), _file("report.js")
    # The browser holds us to our word: nothing is loaded, and no script runs but this one.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src '{script_hash()}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Html('<link rel="icon" href="data:,">'),
        tag("style", Html(style)),
    )
    button = tag("button", "Dark", id="theme", type="button", hidden="", aria_label="Switch between dark and light")
    body = tag(
        "body",
        _patterns(),
        tag("header", tag("div", tag("h1", title), tag("p", subtitle)), button),
        *banners,
        _contents(sections),
        tag("main", *(each.html for each in sections)),
        tag("footer", footer),
        tag("div", id="tip", role="status", aria_live="polite"),
        tag("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def script_hash() -> str:
    """The hash by which a content security policy knows the script of a report."""
    return "sha256-" + base64.b64encode(hashlib.sha256(_file("report.js").encode()).digest()).decode()


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _contents(sections: Sequence[Section]) -> Html:
    links = (tag("li", tag("a", each.title, href=f"#{each.identity}")) for each in sections)
    return tag("nav", tag("ul", *links), aria_label="Contents")


def _patterns() -> Html:
    """Hatching for what is not trained."""
    patterns = (
        tag(
            "pattern",
            tag("path", d="M0 6L6 0", stroke_width="1.6", class_=f"hatch-{part}"),
            id=f"hatch-{part}",
            width="6",
            height="6",
            patternUnits="userSpaceOnUse",
        )
        for part in ("shared", "personal")
    )
    return tag("svg", tag("defs", *patterns), class_="definitions", aria_hidden="true")
