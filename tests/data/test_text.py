"""Texts: words and their numbers, a vocabulary of the training part alone, and the cache of what was tokenised."""

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from partita.core.objectives import BEGIN, END, PAD, SPECIAL, UNKNOWN
from partita.data import text as module
from partita.data.federation import federate
from partita.data.pool import Texts
from partita.data.splits.natural import natural
from partita.data.text import encode, text_pool, tokenize, tokenize_once, words_of
from partita.errors import PartitaError

WORDS = st.sampled_from(["a", "b", "cat", "dog", "the", "x1"])
TEXTS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), min_size=1, max_size=8)
NONE = torch.zeros(0)


def spelled(texts: Texts) -> list[list[str]]:
    """The words of each text, from their numbers."""
    bounds = pairwise(texts.bounds.tolist())
    return [[texts.words[token] for token in texts.tokens[begin:end]] for begin, end in bounds]


def test_words_are_lower_case_with_punctuation_apart() -> None:
    assert words_of("The cat's 2 dogs -- (ran)!") == ["the", "cat", "'", "s", "2", "dogs", "(", "ran", ")", "!"]


OLD_WORD = re.compile(r"[a-z0-9]+|[.,!?()']")


@given(st.text(st.characters(max_codepoint=127)))
def test_words_of_ascii_stay_as_they_were(text: str) -> None:
    assert words_of(text) == OLD_WORD.findall(text.lower())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Привет, мир!", ["привет", ",", "мир", "!"]),
        ("Straße NAÏVE", ["straße", "naïve"]),
        ("cafe\u0301 caf\u00e9", ["caf\u00e9", "caf\u00e9"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("日本語 123", ["日本語", "123"]),
        ("dé_jà", ["dé", "jà"]),
        ("\u0301 🎈", []),
    ],
)
def test_words_of_any_script(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@given(st.lists(st.text(), max_size=6))
def test_tokens_spell_the_texts(texts: list[str]) -> None:
    assert spelled(tokenize(texts)) == [words_of(text) for text in texts]
    assert spelled(tokenize(texts, characters=True)) == [list(text) for text in texts]


@settings(deadline=None)
@given(TEXTS, TEXTS, TEXTS, st.none() | st.integers(1, 4))
def test_the_vocabulary_is_of_the_training_part_alone(
    train: list[str], test: list[str], other: list[str], vocabulary: int | None
) -> None:
    """Whatever the test rows say, training rows and the number of words are the same, and new words are unknown."""
    training = np.arange(len(train))
    first, second = (
        encode(tokenize([*train, *rest]), NONE, "classification", training, vocabulary, 6) for rest in (test, other)
    )
    assert torch.equal(first[0][: len(train)], second[0][: len(train)])
    known = {word for text in train for word in words_of(text)}
    size = min(len(known), vocabulary or len(known))
    assert first[2] == second[2] == SPECIAL + size
    for text, row in zip(test, first[0][len(train) :].tolist(), strict=True):
        for word, number in zip(words_of(text), row, strict=False):
            assert word in known or number == UNKNOWN


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_tests_before_the_training_part_change_no_numbering_of_size(train: list[str], test: list[str]) -> None:
    """Also where test rows come first in the data, they do not enlarge the vocabulary."""
    after = np.arange(len(test), len(test) + len(train))
    made = encode(tokenize([*test, *train]), NONE, "classification", after, None, 6)
    assert made[2] == SPECIAL + len({word for text in train for word in words_of(text)})
    assert (made[0][len(test) :] != UNKNOWN).all()


def test_the_most_frequent_words_are_kept() -> None:
    texts = tokenize(["b b b a a c", "c c c c c"])
    inputs, _, size = encode(texts, NONE, "classification", np.array([0]), 2, 6)
    assert size == SPECIAL + 2
    assert inputs[0].tolist() == [SPECIAL, SPECIAL, SPECIAL, SPECIAL + 1, SPECIAL + 1, UNKNOWN]
    assert inputs[1].tolist() == [UNKNOWN] * 5 + [PAD]


def test_the_layout_of_next_word_prediction() -> None:
    """Inputs: begin and the words. Targets: the words and end. Shorter, equal and longer than the length, and empty."""
    texts = tokenize(["a b", "a b a", "a b a b b", ""])
    a, b = SPECIAL, SPECIAL + 1
    inputs, targets, size = encode(texts, NONE, "next_word", np.arange(2), None, 3)
    assert size == SPECIAL + 2
    assert inputs.tolist() == [[BEGIN, a, b], [BEGIN, a, b], [BEGIN, a, b], [BEGIN, PAD, PAD]]
    assert targets.tolist() == [[a, b, END], [a, b, a], [a, b, a], [END, PAD, PAD]]


@settings(deadline=None)
@given(TEXTS, st.integers(1, 7))
def test_the_next_word_is_the_target(texts: list[str], length: int) -> None:
    inputs, targets, _ = encode(tokenize(texts), NONE, "next_word", np.arange(len(texts)), None, length)
    assert inputs.shape == targets.shape == (len(texts), length)
    assert (inputs[:, 0] == BEGIN).all()
    # Where the target is a word, it is the next input; after the end there is only filling.
    words = targets[:, :-1] >= SPECIAL
    assert torch.equal(inputs[:, 1:][words], targets[:, :-1][words])
    assert (inputs[:, 1:][~words] == PAD).all()


def test_next_characters() -> None:
    pool = text_pool("p", ["ab", "ba", "zz", "ab"], None, characters=True, clients=np.array([0, 0, 0, 0]))
    assert pool.kind == "next_word"
    made = federate(pool, natural(test=0.25), validation=0.0, length=3, most_duplicates=1.0)
    assert made.classes == made.facts["vocabulary"] == made.samples.targets.max() + 1


def test_a_vocabulary_needs_a_word() -> None:
    with pytest.raises(PartitaError, match="vocabulary is 0, but must be at least 1"):
        encode(tokenize(["a"]), NONE, "classification", np.array([0]), 0, 3)


def test_labels_of_texts_are_checked() -> None:
    with pytest.raises(PartitaError, match=r"p: the label of row 1 is 0\.5, not the number of a class"):
        text_pool("p", ["a", "b"], np.array([0.0, 0.5]))
    with pytest.raises(PartitaError, match=r"the label of row 1 is 2, outside 0\.\.1"):
        text_pool("p", ["a", "b"], np.array([0, 2]), classes=2)
    assert text_pool("p", ["a", "b"], np.array([0.5, 2.5]), kind="regression").targets.tolist() == [0.5, 2.5]


LONG = [f"word{number} the cat" for number in range(50)]


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache in which even few characters are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "WORTH_CACHING", 1)
    return tmp_path / "partita" / "tokens"


def refuse(*_: object, **__: object) -> Texts:
    raise AssertionError("tokenised again")


def same(left: Texts, right: Texts) -> bool:
    return spelled(left) == spelled(right) and left.words == right.words and left.tokens.dtype == right.tokens.dtype


@pytest.mark.parametrize("characters", [False, True])
def test_texts_are_tokenised_once(cache: Path, monkeypatch: pytest.MonkeyPatch, characters: bool) -> None:
    first = tokenize_once(LONG, characters=characters)
    monkeypatch.setattr(module, "tokenize", refuse)
    assert same(tokenize_once(LONG, characters=characters), first)
    assert same(first, tokenize(LONG, characters=characters))
    assert [each.suffix for each in cache.iterdir()] == [".npz"]


def test_other_texts_units_or_versions_are_other_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenize_once(["ab", "c"])
    tokenize_once(["a", "bc"])
    tokenize_once(["ab", "c"], characters=True)
    monkeypatch.setattr(module, "TOKENIZER", module.TOKENIZER + 1)
    tokenize_once(["ab", "c"])
    assert len(list(cache.iterdir())) == 4


@pytest.mark.parametrize("texts", [["a\0b", "\0"], ["\ud800 x"], ["é日本 🎈"], [" "]])
def test_strange_characters_survive_the_cache(cache: Path, texts: list[str]) -> None:
    first, again = (tokenize_once(texts, characters=True) for _ in range(2))
    assert spelled(first) == spelled(again) == [list(text) for text in texts]


def test_a_damaged_cache_is_made_anew(cache: Path) -> None:
    """Whatever is cut off or changed: the texts are right, and so is the file afterwards."""
    right = tokenize_once(LONG)
    (path,) = cache.iterdir()
    content = path.read_bytes()
    places = range(0, len(content), 97)
    damaged = [content[:place] for place in places]
    damaged += [content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :] for place in places]
    for each in (*damaged, b"", b"PK", b"not a file of arrays"):
        path.write_bytes(each)
        assert same(tokenize_once(LONG), right)
    path.write_bytes(b"")
    tokenize_once(LONG)
    assert same(module._read_tokens(path, len(LONG)) or refuse(), right)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": np.array([0, 9], dtype=np.int32)},
        {"tokens": np.array([0, -1], dtype=np.int32)},
        {"bounds": np.array([0, 2, 1, 2])},
        {"bounds": np.array([1, 1, 2])},
        {"bounds": np.array([0, 2])},
        {"words": np.frombuffer(b"no json", dtype=np.uint8)},
    ],
    ids=lambda wrong: f"{wrong}",
)
def test_a_cache_that_does_not_hold_together_is_not_used(cache: Path, wrong: dict[str, np.ndarray]) -> None:
    right = tokenize_once(["a", "b"])
    (path,) = cache.iterdir()
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, **wrong})
    assert same(tokenize_once(["a", "b"]), right)


def test_many_can_write_the_cache_at_once(cache: Path) -> None:
    right = tokenize(LONG)

    def tokenize_often(_: int) -> bool:
        for _ in range(20):
            for path in cache.glob("*.npz"):
                path.unlink(missing_ok=True)
            if not same(tokenize_once(LONG), right):
                return False
        return True

    with ThreadPoolExecutor(4) as workers:
        assert all(workers.map(tokenize_often, range(4)))
    assert not list(cache.glob("*.part"))


def test_a_cache_that_cannot_be_written_is_done_without(cache: Path) -> None:
    cache.parent.parent.joinpath("partita").write_text("a file where the folder should be")
    assert same(tokenize_once(LONG), tokenize(LONG))


def test_few_characters_are_not_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH_CACHING", sum(map(len, LONG)) + 1)
    tokenize_once(LONG)
    assert not cache.exists()
