"""How is a name written in the text of a selector? In quotes if it has characters with a special meaning."""

import re

from ..errors import PartitaError

PLAIN = re.compile(r"[^()~&|,+:'/\s]+")
PREFIX = re.compile(r"[^()~&|,+:'/\s]+/")
QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_TOKEN = re.compile(r"\s*([()~&|,]|(?:'(?:[^'\\]|\\.)*'|[^()~&|,\s'])+)", re.DOTALL)
_PART = re.compile(r"(?:'(?:[^'\\]|\\.)*'|[^+'])+", re.DOTALL)


def quoted(name: str) -> str:
    """
    >>> [quoted(name) for name in ("layer4.*", "my (layer)")]
    ['layer4.*', "'my (layer)'"]
    """
    return name if PLAIN.fullmatch(name) else in_quotes(name)


def in_quotes(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unquoted(text: str) -> str:
    """The inverse of `quoted`, also within a text."""
    return QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL), text)


def tokens(text: str) -> list[str]:
    """Brackets, operators and names."""
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if not token:
            raise PartitaError(f"Selector {text!r}: a quote is not closed.")
        found.append(token[1])
        at = token.end()
    return found


def parts(text: str) -> list[str]:
    """What a plus sign joins."""
    return _PART.findall(text)
