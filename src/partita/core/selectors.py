"""Which tensors? Sets of names, made from a network's structure and combined by `&`, `|` and `~`.

>>> str(HEAD | where("layer4.*"))
'(head | layer4.*)'
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import reduce
from operator import or_
from typing import ClassVar

from torch import nn

from ..errors import PartitaError, unknown
from ..formatting import amount
from .network import NORMS, Network
from .quoting import PREFIX, QUOTED, in_quotes, parts, quoted, tokens, unquoted

Choose = Callable[[Network, frozenset[str]], frozenset[str]]


@dataclass(frozen=True)
class Selector:
    """A set of tensors, by a rule that is resolved against a network and the names a client holds."""

    text: str
    choose: Choose = field(repr=False)
    example: ClassVar[str] = "HEAD or 'head'"

    def __call__(self, network: Network, names: frozenset[str]) -> frozenset[str]:
        return self.choose(network, names)

    def __and__(self, other: "Selector") -> "Selector":
        return Selector(f"({self} & {other})", lambda n, names: self(n, names) & other(n, names))

    def __or__(self, other: "Selector") -> "Selector":
        return Selector(f"({self} | {other})", lambda n, names: self(n, names) | other(n, names))

    def __invert__(self) -> "Selector":
        return Selector(f"~{self}", lambda n, names: names - self(n, names))

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> "Selector":
        """`head`, `body`, `last_blocks:2`, `group:adapter`, `type:BatchNorm2d`, `layer4.*`, with `~`, `&`, `|` and `,`.

        `name:head` is a module or tensor called head, not the head of the network; a name with odd characters is
        quoted, as in `name:'my (layer)'`. What a selector prints is parsed to the same selector, but for predicates.
        """
        return _Parser(text).selector()


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern names a tensor or a module that holds it: `bn1` names `bn1.weight`, never `bn10.weight`."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[:length]), pattern) for length in range(1, len(parts) + 1))


def _is_network_name(name: str) -> bool:
    return "/" not in name


def _rule(text: str, choose: Callable[[Network], frozenset[str]]) -> Selector:
    """A selector by structure alone; one that matches nothing in a network is an error, which lists its tensors."""

    def checked(network: Network, names: frozenset[str]) -> frozenset[str]:
        chosen = choose(network)
        if not chosen:
            raise PartitaError(
                f"The selector {text!r} matches no tensor of the network. Its tensors: {', '.join(network.names)}. "
                "Choose among them, or name a group of them: groups={'NAME': 'PATTERN'}."
            )
        return chosen & names

    return Selector(text, checked)


NOTHING = Selector("nothing", lambda network, names: frozenset())
EVERYTHING = Selector("everything", lambda network, names: names)
NETWORK = Selector("network", lambda network, names: frozenset(filter(_is_network_name, names)))


def group(name: str) -> Selector:
    """The tensors that the network (or the experiment) declares under a name."""

    def choose(network: Network) -> frozenset[str]:
        if name not in network.groups:
            raise PartitaError(unknown("group", name, network.groups) + f" Define it: groups={{{name!r}: 'PATTERN'}}.")
        return frozenset(network.groups[name])

    return _rule(name if name == "head" else f"group:{quoted(name)}", choose)


def where(*patterns: str) -> Selector:
    """Glob patterns on names of tensors or of modules."""

    def one(pattern: str) -> Selector:
        text = quoted(pattern)
        if text != pattern or pattern in _NAMED:
            text = "name:" + text
        return _rule(text, lambda network: frozenset(name for name in network.names if matches(pattern, name)))

    if not patterns:
        raise PartitaError("where() needs a pattern, as in where('layer4.*').")
    return reduce(or_, map(one, patterns))


def of_type(*kinds: type[nn.Module]) -> Selector:
    """The tensors that modules of these types (or subclasses) own."""
    return _of_type(*map(_type_name, kinds))


def _of_type(*names: str) -> Selector:
    """Modules by the names of their types. No type is imported: it is looked for among those of the network."""

    def choose(network: Network) -> frozenset[str]:
        return frozenset(
            name
            for name, owner in network.owners.items()
            if any(_type_name(kind) in names for kind in type(owner).__mro__)
        )

    return _rule("type:" + "+".join(map(quoted, names)), choose)


def _type_name(kind: type) -> str:
    """`Linear` is torch's; any other has its module before it."""
    short = kind.__name__
    return short if getattr(nn, short, None) is kind else f"{kind.__module__}.{kind.__qualname__}"


def satisfying(predicate: Callable[[str], bool]) -> Selector:
    """The tensors whose name satisfies a predicate."""
    text = f"satisfying:{getattr(predicate, '__name__', predicate)}"
    return _rule(text, lambda network: frozenset(filter(predicate, network.names)))


def last_blocks(count: int) -> Selector:
    """The last blocks, counted from the output: 1 is the classifier."""
    return _blocks("last_blocks", count, lambda blocks: blocks[len(blocks) - count :])


def first_blocks(count: int) -> Selector:
    """The first blocks, counted from the input."""
    return _blocks("first_blocks", count, lambda blocks: blocks[:count])


def last_tensors(count: int) -> Selector:
    """The last parameter tensors in the order of `module.parameters()`."""

    def choose(network: Network, names: frozenset[str]) -> frozenset[str]:
        if not 0 <= count <= len(network.parameters):
            raise PartitaError(
                f"last_tensors({count}): the network has {amount(len(network.parameters), 'parameter tensor')}. "
                "Choose no more."
            )
        return frozenset(network.parameters[len(network.parameters) - count :]) & names

    return Selector(f"last_tensors:{count}", choose)


def below(prefix: str, selector: Selector = NETWORK) -> Selector:
    """A selection among the tensors under a prefix: `below("personal/", HEAD)` is `personal/fc.weight`, ..."""

    def choose(network: Network, names: frozenset[str]) -> frozenset[str]:
        inner = frozenset(name.removeprefix(prefix) for name in names if name.startswith(prefix))
        return frozenset(prefix + name for name in selector(network, inner))

    return Selector(f"{prefix if PREFIX.fullmatch(prefix) else in_quotes(prefix)}({selector})", choose)


def _blocks(
    kind: str, count: int, cut: Callable[[tuple[tuple[str, ...], ...]], tuple[tuple[str, ...], ...]]
) -> Selector:
    def choose(network: Network, names: frozenset[str]) -> frozenset[str]:
        if not 0 <= count <= len(network.blocks):
            raise PartitaError(
                f"{kind}({count}): the network has {amount(len(network.blocks), 'block')}. Choose no more."
            )
        return frozenset(name for block in cut(network.blocks) for name in block) & names

    return Selector(f"{kind}:{count}", choose)


HEAD = group("head")
BODY = Selector("body", (NETWORK & ~HEAD).choose)
NORM = _rule("norm", lambda network: network.of_kind(NORMS))
INPUT = Selector("input", first_blocks(1).choose)

WEIGHTS = Selector("weights", lambda network, names: frozenset(n for n in names if not n.endswith("bias")))

MARK = "decided/"
"""The server marks a tensor that it decided on with an empty tensor of this name and the tensor's."""
DECIDED = Selector("decided", lambda network, names: frozenset(name for name in names if MARK + name in names))
"""What the algorithm decided on while it runs (`Algorithm.decide`); nothing before that."""

_NAMED = {str(s): s for s in (NOTHING, EVERYTHING, NETWORK, HEAD, BODY, NORM, INPUT, WEIGHTS, DECIDED)}
_OPERATORS = frozenset("()~&|,")
_COUNTED = {"last_blocks": last_blocks, "first_blocks": first_blocks, "last_tensors": last_tensors}


MOST_TERMS = 150
"""The most terms that the text of a selector may have. Each is a level of nesting, and Python's stack is finite."""


class _Parser:
    """Reads alternatives of conjunctions of terms, from the left."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        names = sum(token not in _OPERATORS for token in self.tokens)
        if max(names, self.tokens.count("(") + self.tokens.count("~")) > MOST_TERMS:
            raise PartitaError(
                f"A selector has {names} names, and at most {MOST_TERMS} are allowed, as are brackets and ~. Choose by "
                "patterns, as in 'layer4.*'."
            )

    def selector(self) -> Selector:
        found = self.alternatives()
        if self.tokens:
            raise PartitaError(
                f"Selector {self.text!r}: {self.tokens[0]!r} is not expected here. Join names with &, | or a comma."
            )
        return found

    def alternatives(self) -> Selector:
        found = self.conjunction()
        while self.tokens and self.tokens[0] in "|,":
            self.tokens.pop(0)
            found = found | self.conjunction()
        return found

    def conjunction(self) -> Selector:
        found = self.term()
        while self.tokens and self.tokens[0] == "&":
            self.tokens.pop(0)
            found = found & self.term()
        return found

    def term(self) -> Selector:
        token = self.tokens.pop(0) if self.tokens else ""
        if token == "~":
            return ~self.term()
        if not token or token in ")&|,":
            raise PartitaError(f"Selector {self.text!r}: a name is missing.")
        if token == "(" or PREFIX.fullmatch(token) or (QUOTED.fullmatch(token) and self.tokens[:1] == ["("]):
            return self.bracketed(token)
        return _named(token)

    def bracketed(self, token: str) -> Selector:
        if token != "(" and (not self.tokens or self.tokens.pop(0) != "("):
            raise PartitaError(
                f"Selector {self.text!r}: after {token!r} a selection is expected, as in {token}(network)."
            )
        found = self.alternatives()
        if not self.tokens or self.tokens.pop(0) != ")":
            raise PartitaError(f"Selector {self.text!r}: a bracket is not closed.")
        return found if token == "(" else below(unquoted(token), found)


def _named(term: str) -> Selector:
    if term in _NAMED:
        return _NAMED[term]
    if QUOTED.fullmatch(term):
        return where(unquoted(term))
    kind, colon, argument = term.partition(":")
    if not colon:
        return where(term)
    if kind in _COUNTED and re.fullmatch(r"-?\d{1,9}", argument):
        return _COUNTED[kind](int(argument))
    if kind == "name" and argument:
        return where(unquoted(argument))
    if kind == "group" and argument:
        return group(unquoted(argument))
    if kind == "type" and argument:
        return _of_type(*map(_known_type, parts(argument)))
    known = [*_NAMED, *(f"{name}:N" for name in _COUNTED), "group:NAME", "type:NAME", "name:NAME"]
    raise PartitaError(unknown("selector", term, known))


def _known_type(text: str) -> str:
    """A type of torch, or one of the network's with its module before it."""
    name = unquoted(text)
    found = getattr(nn, name, None)
    if "." not in name and not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise PartitaError(f"torch.nn has no module type {name!r}. Name your own as package.module.{name}.")
    return name
