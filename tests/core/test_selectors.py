"""Selectors: which names they choose, how they combine, and what they say when they choose nothing.

One file, since all selectors choose among the names of the same networks.
"""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings, strategies as st
from torch import nn

from partita.core.network import Network
from partita.core.selectors import (
    BODY,
    DECIDED,
    EVERYTHING,
    HEAD,
    INPUT,
    MOST_TERMS,
    NETWORK,
    NORM,
    NOTHING,
    WEIGHTS,
    Selector,
    below,
    first_blocks,
    group,
    last_blocks,
    last_tensors,
    matches,
    of_type,
    satisfying,
    where,
)
from partita.core.task import Task
from partita.errors import PartitaError
from toys import small_network


class WideLinear(nn.Linear):
    """A type of layer that torch does not know."""


def named(**modules: nn.Module) -> nn.Module:
    net = nn.Sequential()
    for name, module in modules.items():
        net.add_module(name, module)
    return net


def network(module: nn.Module, groups: Mapping[str, str | tuple[str, ...]] | None = None) -> Network:
    return Task(module, groups=groups).network


SMALL = network(small_network())
LOOKALIKES = network(
    named(
        bn1=nn.BatchNorm1d(2),
        bn10=nn.BatchNorm1d(2),
        block=nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.GroupNorm(1, 2), WideLinear(2, 2))),
        fc=nn.Linear(2, 2),
    )
)


def chosen(selector: Selector, among: Network = SMALL, *extra: str) -> set[str]:
    return set(selector(among, frozenset((*among.names, *extra))))


def modules_of(names: set[str]) -> set[str]:
    return {name.rpartition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("selector", "modules"),
    [
        (HEAD, "head"),
        (BODY, "layer1 norm1 layer2"),
        (NORM, "norm1"),
        (INPUT, "layer1 norm1"),
        (NETWORK, "layer1 norm1 layer2 head"),
        (EVERYTHING, "layer1 norm1 layer2 head"),
        (NOTHING, ""),
        (last_blocks(0), ""),
        (last_blocks(1), "head"),
        (last_blocks(2), "layer2 head"),
        (last_blocks(3), "layer1 norm1 layer2 head"),
        (first_blocks(0), ""),
        (first_blocks(2), "layer1 norm1 layer2"),
        (of_type(nn.Linear), "layer1 layer2 head"),
        (of_type(nn.Linear, nn.BatchNorm1d) & ~HEAD, "layer1 norm1 layer2"),
        (where("layer?"), "layer1 layer2"),
        (where("layer1", "head"), "layer1 head"),
    ],
    ids=str,
)
def test_a_selector_takes_whole_modules(selector: Selector, modules: str) -> None:
    names = chosen(selector)
    assert modules_of(names) == set(modules.split())
    assert names == {name for name in SMALL.names if name.rpartition(".")[0] in modules.split()}


def test_tensors_of_a_method_are_no_part_of_the_network() -> None:
    extra = "personal/head.weight"
    assert extra in chosen(EVERYTHING, SMALL, extra)
    assert extra in chosen(~HEAD, SMALL, extra)
    for selector in (NETWORK, BODY, HEAD):
        assert extra not in chosen(selector, SMALL, extra)


def test_weights_are_all_but_biases() -> None:
    assert chosen(WEIGHTS) == {name for name in SMALL.names if not name.endswith("bias")}


def test_satisfying_takes_a_predicate() -> None:
    assert chosen(satisfying(lambda name: name.endswith("bias"))) == {n for n in SMALL.names if n.endswith("bias")}


@pytest.mark.parametrize(
    ("pattern", "modules"),
    [
        ("bn1", {"bn1"}),
        ("bn10", {"bn10"}),
        ("bn1.*", {"bn1"}),
        ("bn*", {"bn1", "bn10"}),
        ("bn?", {"bn1"}),
        ("block", {"block.0", "block.1.0", "block.1.1"}),
        ("block.1", {"block.1.0", "block.1.1"}),
        ("[bf]*", {"bn1", "bn10", "block.0", "block.1.0", "block.1.1", "fc"}),
    ],
)
def test_a_pattern_names_modules_and_never_what_merely_begins_alike(pattern: str, modules: set[str]) -> None:
    assert modules_of(chosen(where(pattern), LOOKALIKES)) == modules


def test_a_pattern_may_name_one_tensor() -> None:
    assert chosen(where("bn1.weight", "*.running_var"), LOOKALIKES) == {
        "bn1.weight",
        "bn1.running_var",
        "bn10.running_var",
    }


def test_types_include_subclasses_and_are_found_at_any_depth() -> None:
    assert modules_of(chosen(of_type(nn.Linear), LOOKALIKES)) == {"block.0", "block.1.1", "fc"}
    assert modules_of(chosen(of_type(WideLinear), LOOKALIKES)) == {"block.1.1"}
    assert modules_of(chosen(NORM, LOOKALIKES)) == {"bn1", "bn10", "block.1.0"}


def test_last_tensors_count_parameters_and_no_buffers() -> None:
    ended_by_norm = network(named(fc=nn.Linear(2, 2), bn=nn.BatchNorm1d(2)))
    assert chosen(last_tensors(2), ended_by_norm) == {"bn.weight", "bn.bias"}
    assert chosen(last_tensors(3), ended_by_norm) == {"fc.bias", "bn.weight", "bn.bias"}
    assert chosen(last_tensors(0), ended_by_norm) == set()


def test_groups_are_declared_by_the_task() -> None:
    declared = network(small_network(), {"adapter": ("norm1", "layer2.bias"), "head": "layer2"})
    assert chosen(group("adapter"), declared) == {n for n in declared.names if matches("norm1", n)} | {"layer2.bias"}
    assert modules_of(chosen(HEAD, declared)) == {"layer2"}
    assert modules_of(chosen(BODY, declared)) == {"layer1", "norm1", "head"}


def test_below_selects_among_the_tensors_under_a_prefix() -> None:
    names = frozenset({"head.weight", "personal/head.weight", "personal/layer1.bias", "mix/head.weight"})
    assert below("personal/")(SMALL, names) == {"personal/head.weight", "personal/layer1.bias"}
    assert below("personal/", HEAD)(SMALL, names) == {"personal/head.weight"}
    assert (~below("personal/"))(SMALL, names) == {"head.weight", "mix/head.weight"}


@pytest.mark.parametrize(
    "selector",
    [where("nowhere"), where("layer1", "nowhere"), of_type(nn.Conv2d), satisfying(lambda name: False)],
    ids=["pattern", "one of two patterns", "type", "predicate"],
)
def test_a_selector_that_matches_nothing_lists_the_names(selector: Selector) -> None:
    with pytest.raises(PartitaError) as caught:
        chosen(selector)
    assert all(name in str(caught.value) for name in SMALL.names)


def test_norm_of_a_network_without_norm_lists_the_names() -> None:
    with pytest.raises(PartitaError, match=r"'norm' matches no tensor.*head\.weight"):
        chosen(NORM, network(small_network(norm=False)))


def test_an_unknown_group_has_a_suggestion_and_a_way_out() -> None:
    with pytest.raises(PartitaError, match=r"Did you mean 'head'\?.*groups="):
        chosen(group("haed"))


@pytest.mark.parametrize("selector", [last_blocks(4), first_blocks(4), last_tensors(9), last_blocks(-1)], ids=str)
def test_more_than_there_is_says_how_much_there_is(selector: Selector) -> None:
    with pytest.raises(PartitaError, match=r"the network has \d blocks|the network has 8 parameter tensors"):
        chosen(selector)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        *((str(s), s) for s in (HEAD, BODY, NORM, INPUT, NETWORK, EVERYTHING, NOTHING, WEIGHTS)),
        ("last_blocks:2", last_blocks(2)),
        ("first_blocks:1", first_blocks(1)),
        ("last_tensors:3", last_tensors(3)),
        ("group:head", HEAD),
        ("type:BatchNorm1d", of_type(nn.BatchNorm1d)),
        ("layer1.*", where("layer1.*")),
        ("~head", BODY),
        ("~layer1", NETWORK & ~where("layer1")),
        ("head, norm", HEAD | NORM),
        ("last_blocks:1,layer1", HEAD | where("layer1")),
    ],
)
def test_text_is_parsed_and_what_is_printed_can_be_parsed_again(text: str, meaning: Selector) -> None:
    parsed = Selector.parse(text)
    assert chosen(parsed) == chosen(meaning)
    assert chosen(Selector.parse(str(parsed))) == chosen(meaning)


@pytest.mark.parametrize(
    "selector",
    [HEAD | where("layer1"), NETWORK & ~last_blocks(1), ~(HEAD | NORM), of_type(nn.Linear, nn.BatchNorm1d)],
    ids=str,
)
def test_combinations_can_be_parsed_from_their_text(selector: Selector) -> None:
    assert chosen(Selector.parse(str(selector))) == chosen(selector)


@pytest.mark.parametrize("text", ["", "head,", "last_blocks:two", "last_blocks:", "group:", "what:3", "type:Nothing"])
def test_text_that_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(PartitaError):
        chosen(Selector.parse(text))


def test_a_type_must_be_a_module() -> None:
    with pytest.raises(PartitaError, match="functional"):
        Selector.parse("type:functional")


NAMES = st.frozensets(st.sampled_from([f"{prefix}layer{n}.weight" for prefix in ("", "personal/") for n in range(4)]))


def fixed(names: frozenset[str]) -> Selector:
    return Selector("fixed", lambda network, universe: names & universe)


@settings(deadline=None)
@given(NAMES, NAMES, NAMES, NAMES)
def test_selectors_are_sets(universe: frozenset[str], a: frozenset[str], b: frozenset[str], c: frozenset[str]) -> None:
    def equal(left: Selector, right: Selector) -> bool:
        return left(SMALL, universe) == right(SMALL, universe)

    x, y, z = fixed(a), fixed(b), fixed(c)
    assert equal(~(x & y), ~x | ~y)
    assert equal(~(x | y), ~x & ~y)
    assert equal(~~x, x)
    assert equal(x | ~x, EVERYTHING)
    assert equal(x & ~x, NOTHING)
    assert equal(x & x, x)
    assert equal(x | x, x)
    assert equal(x & (y | z), (x & y) | (x & z))
    assert equal(x | (x & y), x)
    assert equal(x & EVERYTHING, x)
    assert equal(x | NOTHING, x)
    assert (x | y)(SMALL, universe) == (a | b) & universe
    assert equal(NETWORK | below("personal/"), EVERYTHING)


WORDS = st.lists(st.text("ab1_", min_size=1, max_size=3), min_size=1, max_size=4).map(".".join)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_a_plain_name_matches_itself_and_what_is_inside(pattern: str, name: str) -> None:
    assert matches(pattern, name) == (name == pattern or name.startswith(pattern + "."))


# What is printed is parsed to the same selection, whatever modules are called

ODD = st.text(st.sampled_from("ab1 ()~&|,:+'\"\\*?[]!=<>é\n"), min_size=1, max_size=6)
MODULE_NAMES = (
    st.sampled_from(["norm", "head", "body", "input", "network", "weights", "name:norm", "last_blocks:2"]) | ODD
)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """A few layers, some within others, with names that nobody should give."""
    module = nn.Sequential()
    for name in draw(st.lists(MODULE_NAMES, min_size=2, max_size=4, unique=True)):
        layer = draw(st.sampled_from([nn.Linear(1, 1), nn.BatchNorm1d(1), WideLinear(1, 1)]))
        if hasattr(module, name):
            continue
        inner = nn.Sequential()
        inner.add_module(draw(MODULE_NAMES.filter(lambda each: not hasattr(nn.Sequential(), each))), layer)
        module.add_module(name, draw(st.sampled_from([layer, inner])))
    module.add_module("last", nn.Linear(1, 1))
    return network(module, {draw(ODD): "last"})


@st.composite
def selectors(draw: st.DrawFn, among: Network) -> Selector:
    """Everything that can be built from what is public, but for predicates."""
    names = [part for name in among.names for part in (name, name.rpartition(".")[0], name.partition(".")[0])]
    counts = st.integers(-1, 4)
    simple = st.one_of(
        st.sampled_from([NOTHING, EVERYTHING, NETWORK, HEAD, BODY, NORM, INPUT, WEIGHTS, DECIDED]),
        st.lists(st.sampled_from(names) | MODULE_NAMES, min_size=1, max_size=3).map(lambda each: where(*each)),
        st.builds(last_blocks, counts),
        st.builds(first_blocks, counts),
        st.builds(last_tensors, counts),
        st.sampled_from([*among.groups, "nowhere"]).map(group),
        st.lists(st.sampled_from([nn.Linear, nn.BatchNorm1d, WideLinear, nn.modules.batchnorm._NormBase]), min_size=1)
        .map(lambda kinds: of_type(*kinds)),
    )  # fmt: skip
    prefixes = st.sampled_from(["personal/", "a/b/", "x"]) | ODD
    combined: st.SearchStrategy[Selector] = st.recursive(
        simple,
        lambda inner: st.one_of(
            st.builds(lambda one, other: one & other, inner, inner),
            st.builds(lambda one, other: one | other, inner, inner),
            inner.map(lambda one: ~one),
            st.builds(below, prefixes, inner),
        ),
        max_leaves=5,
    )
    return draw(combined)


def outcome(selector: Selector, among: Network, names: frozenset[str]) -> frozenset[str] | str:
    """What it chooses, or the error."""
    try:
        return selector(among, names)
    except PartitaError as problem:
        return str(problem)


@given(st.data())
@settings(max_examples=400)
def test_what_is_printed_is_parsed_to_the_same_selection(data: st.DataObject) -> None:
    among = data.draw(networks())
    selector = data.draw(selectors(among))
    prefixes = ("", "personal/", "a/b/", "x", "decided/")
    names = frozenset(prefix + name for prefix in prefixes for name in among.names)
    again = Selector.parse(str(selector))
    assert outcome(again, among, names) == outcome(selector, among, names)
    assert str(again) == str(selector)


CALLED_AS_PARTS = network(
    named(norm=nn.Linear(2, 2), head=nn.Linear(2, 2), batch=nn.BatchNorm1d(2), last=nn.Linear(2, 2))
)


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("norm", {"batch"}),
        ("name:norm", {"norm"}),
        ("head", {"last"}),
        ("name:head", {"head"}),
        ("~name:norm & network", {"head", "batch", "last"}),
        ("name:'norm'", {"norm"}),
        ("'norm'", {"norm"}),
    ],
)
def test_a_module_may_be_called_as_a_part_of_the_network(text: str, modules: set[str]) -> None:
    assert modules_of(chosen(Selector.parse(text), CALLED_AS_PARTS)) == modules


def test_a_name_that_is_also_a_word_is_printed_with_its_kind() -> None:
    assert str(where("norm", "layer4.*")) == "(name:norm | layer4.*)"
    assert str(where("my (layer)")) == "name:'my (layer)'"
    assert str(group("it's")) == r"group:'it\'s'"


@pytest.mark.parametrize("text", ["'norm", "name:'x", "name:", "personal/", "personal/ head", "'a b'("])
def test_text_that_is_not_complete_is_refused(text: str) -> None:
    with pytest.raises(PartitaError, match=r"Selector|Unknown selector"):
        Selector.parse(text)


def test_types_of_ones_own_are_named_with_their_module_and_never_imported() -> None:
    own = of_type(WideLinear)
    assert str(own) == f"type:{__name__}.WideLinear"
    assert chosen(Selector.parse(str(own)), LOOKALIKES) == chosen(own, LOOKALIKES)
    with pytest.raises(PartitaError, match="matches no tensor"):
        chosen(Selector.parse("type:os.system"), LOOKALIKES)


def test_a_slash_in_the_name_of_a_module_is_refused() -> None:
    odd = nn.Sequential()
    odd.add_module("a/b", nn.Linear(1, 1))
    with pytest.raises(PartitaError, match="rename the module"):
        network(odd)


def test_a_pattern_is_needed() -> None:
    with pytest.raises(PartitaError, match="needs a pattern"):
        where()


@pytest.mark.parametrize(
    "text",
    [
        "(" * 300 + "head" + ")" * 300,
        "~" * 300 + "head",
        "head & " * 300 + "head",
        "last_blocks:" + "9" * 5000,
    ],
    ids=["brackets", "inversions", "names", "digits"],
)
def test_a_text_without_end_is_refused(text: str) -> None:
    """It would overflow the stack, or take memory that grows with its square."""
    with pytest.raises(PartitaError, match=r"are allowed|Unknown selector"):
        Selector.parse(text)


def test_as_much_as_is_allowed_can_be_used_and_printed() -> None:
    names = [f"layer{number}" for number in range(MOST_TERMS - 1)]
    many = Selector.parse("|".join([*names, "head"]))
    again = Selector.parse(str(many))
    assert str(again) == str(many)
    deep = Selector.parse("~(" * (MOST_TERMS // 2) + "head" + ")" * (MOST_TERMS // 2))
    names_held = frozenset(SMALL.names)
    assert deep(SMALL, names_held) in (HEAD(SMALL, names_held), names_held - HEAD(SMALL, names_held))
