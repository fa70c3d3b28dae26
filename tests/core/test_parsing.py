"""TOML of others: what is nested too deep is refused before it takes time and memory with the square of its length."""

import re

import pytest

from partita.parsing import DEEPEST, parse_toml

LONG = ".a" * 50_000
KEYS = {
    "dotted": f"a{LONG} = 1",
    "with spaces": "a" + " . a" * 50_000 + " = 1",
    "quoted": '"="' + '."="' * 50_000 + " = 1",
    "in single quotes": "'='" + ".'='" * 50_000 + " = 1",
    "of a table": f"[a{LONG}]",
    "in a table on one line": f"x = {{a{LONG} = 1}}",
    "after a comment with a quote": f"# it's\na{LONG} = 1",
    "after a text": f'x = """ \\""" " # """\na{LONG} = 1',
}


@pytest.mark.parametrize("text", KEYS.values(), ids=KEYS)
def test_a_long_key_is_refused_unread(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita.parsing.tomllib.loads", lambda _: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=f"nested more than {DEEPEST} levels deep"):
        parse_toml(text)


@pytest.mark.parametrize("text", ['"{}"', "'{}'", '"""\n{}\n"""', "'''\n{}\n'''", "1 # {}", '"\\"{}"'])
def test_dots_in_texts_and_comments_are_no_keys(text: str) -> None:
    assert set(parse_toml("x = " + re.sub(r"\{\}", LONG, text))) == {"x"}


def test_numbers_are_no_keys() -> None:
    assert parse_toml("x = [" + "1.5, " * 1000 + "]\n") == {"x": [1.5] * 1000}
