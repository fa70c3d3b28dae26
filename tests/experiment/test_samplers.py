"""Samplers are values: who takes part depends on the seed and the round alone, and is what the name says."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

from partita.algorithms.fedavg import fedavg
from partita.core.batching import Batching
from partita.errors import PartitaError
from partita.experiment.events import Event, RoundEnded
from partita.experiment.result import Result
from partita.experiment.samplers import Everyone, Fraction, NamedSampler, Number, Poisson, Sampler, Schedule, sampler
from partita.experiment.simulate import simulate
from partita.randomness import Moment
from toys import small_federation, small_network

rates = st.floats(0, 1, exclude_min=True)
samplers: st.SearchStrategy[NamedSampler] = st.one_of(
    rates.map(Fraction),
    rates.map(Poisson),
    st.integers(1, 50).map(Number),
    st.just(Everyone()),
    st.lists(st.lists(st.integers(0, 4), unique=True).map(tuple), min_size=1).map(lambda each: Schedule(tuple(each))),
)
moments = st.builds(Moment, round=st.integers(0, 50), rounds=st.just(51), seed=st.integers(0, 3))


@given(samplers, st.integers(5, 40), moments)
def test_a_choice_is_of_clients_each_at_most_once(chosen: Sampler, clients: int, moment: Moment) -> None:
    found = chosen(clients, moment)
    assert found == sorted(set(found))
    assert set(found) <= set(range(clients))
    assert found == chosen(clients, replace(moment, rounds=99, epoch=3, step=2)), "of the seed and the round alone"


@given(samplers, moments)
def test_a_sampler_can_be_written_and_read_again(chosen: NamedSampler, moment: Moment) -> None:
    again = sampler(str(chosen))
    assert again == chosen or (chosen == Fraction(1.0) and again == Everyone())
    assert again(5, moment) == chosen(5, moment)
    assert str(again) == str(sampler(str(again)))
    assert chosen.who


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (0.25, Fraction(0.25)),
        ("0.25", Fraction(0.25)),
        (1, Everyone()),
        (1.0, Everyone()),
        ("1.0", Everyone()),
        ("all", Everyone()),
        ("number:3", Number(3)),
        ("poisson:0.5", Poisson(0.5)),
        ("schedule:0,1;;2", Schedule(((0, 1), (), (2,)))),
        ([[0, 1], [2]], Schedule(((0, 1), (2,)))),
        ([torch.tensor([1, 0])], Schedule(((1, 0),))),
        (Poisson(0.1), Poisson(0.1)),
    ],
)
def test_what_settings_mean(text: Any, value: Sampler) -> None:
    assert sampler(text) == value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (0.0, r"participation is 0\.0, but must be above 0 and at most 1"),
        (1.5, "participation is 1.5, but must be above 0 and at most 1"),
        (3, "participation is 3, .*For a number of clients write 'number:COUNT'"),
        (float("nan"), "participation is nan"),
        ("nan", "participation is nan"),
        ("some", "Unknown participation 'some'.*poisson:RATE"),
        ("all:3", "Unknown participation 'all:3'. Did you mean 'all'"),
        ("number:0", "participation is 'number:0', but must be of at least 1 client"),
        ("number:2.5", "Unknown participation 'number:2.5'"),
        ("number", "Unknown participation 'number'"),
        ("poisson:0", "participation is 'poisson:0.0', but its rate must be above 0 and at most 1"),
        ("poisson:1.1", "participation is 'poisson:1.1'"),
        ("poisson:often", "Unknown participation 'poisson:often'"),
        ("schedule:0,a", "Unknown participation 'schedule:0,a'"),
        ([], "schedule of participants is empty"),
        ([[0, 0]], r"round 1 are \[0, 0\]. Name each client once"),
        ([[0], [-1]], r"round 2 are \[-1\]. Name each client once, by its number from 0"),
        ([0, 1], "a schedule is a list of clients for each round"),
        ([[0.5]], "a schedule is a list of clients for each round"),
    ],
)
def test_what_is_no_sampler_is_refused(given: Any, words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        sampler(given)


@given(st.integers(1, 200), st.integers(0, 20))
def test_numbers_of_participants(clients: int, round: int) -> None:
    moment = Moment(round=round, rounds=21)
    assert len(Fraction(0.1)(clients, moment)) == max(clients // 10, 1)
    assert len(Number(7)(clients, moment)) == min(7, clients)
    assert Everyone()(clients, moment) == list(range(clients)) == Fraction(1.0)(clients, moment)
    assert Poisson(1.0)(clients, moment) == list(range(clients))


def test_a_fraction_of_clients_is_exact_where_a_product_is_not() -> None:
    assert len(Fraction(0.29)(100, Moment())) == 29, "0.29 * 100 is 28.999999999999996"


def test_a_fraction_and_the_same_number_choose_the_same() -> None:
    for round in range(5):
        moment = Moment(round=round, rounds=5, seed=3)
        assert Fraction(0.2)(50, moment) == Number(10)(50, moment)


def test_poisson_takes_each_client_with_its_rate_and_independently() -> None:
    """Over 2,000 rounds: means and the variance of the number of participants, within five standard errors."""
    rate, clients, rounds = 0.3, 20, 2000
    chosen = torch.zeros(rounds, clients)
    for round in range(rounds):
        chosen[round, Poisson(rate)(clients, Moment(round=round, rounds=rounds))] = 1
    spread = (rate * (1 - rate) / rounds) ** 0.5
    assert (chosen.mean(0) - rate).abs().max() < 5 * spread
    counts, expected = chosen.sum(1), clients * rate * (1 - rate)
    assert abs(counts.var().item() - expected) < 5 * expected * (2 / rounds) ** 0.5
    assert len(set(counts.tolist())) > 5, "unlike a fixed number"


def test_a_schedule_begins_again() -> None:
    schedule = Schedule(((0, 2), (), (1,)))
    assert [schedule(3, Moment(round=round, rounds=5)) for round in range(5)] == [[0, 2], [], [1], [0, 2], []]


def run(participation: Any, **options: Any) -> tuple[Result, list[RoundEnded]]:
    ended: list[RoundEnded] = []

    def note(event: Event) -> None:
        assert isinstance(event, RoundEnded)
        ended.append(event)

    result = simulate(
        fedavg(),
        small_network(),
        options.pop("data", small_federation((6, 5, 7, 4))),
        **{"participation": participation, "batching": Batching(3), "evaluate_every": 1, "on_event": note, **options},
    )
    return result, ended


def test_a_round_without_participants_leaves_everything_as_it_was() -> None:
    result, ended = run([[0, 1], [], [2]], rounds=3)
    first, empty, last = ended
    assert [each.participants for each in ended] == [2, 0, 1]
    assert all(torch.equal(empty.state[name], tensor) for name, tensor in first.state.items())
    assert not all(torch.equal(last.state[name], tensor) for name, tensor in first.state.items())
    assert (empty.own, empty.traffic) == ({}, [])
    assert empty.score == first.score
    assert {record.client for record in result.records if record.round == 2} == {0, 1, 2, 3}, "evaluated nevertheless"


def test_poisson_rounds_without_anyone_are_rounds() -> None:
    result, ended = run("poisson:0.05", rounds=6)
    assert 0 in {each.participants for each in ended}
    assert [each.round for each in ended] == [1, 2, 3, 4, 5, 6]
    assert result.score().clients == 4


def test_a_schedule_counts_clients_that_train() -> None:
    data = replace(small_federation((6, 5, 7, 4)), newcomers=frozenset({1}))
    _, [ended] = run([[1]], rounds=1, data=data, evaluate_every=0)
    assert {row.client for row in ended.traffic} == {2}
    with pytest.raises(PartitaError, match="Client 3 is to take part in round 1, but only 3 clients train"):
        run([[3]], rounds=1, data=data)


class Own:
    """A sampler of one's own."""

    who = "whoever comes"

    def __init__(self, chosen: list[int]) -> None:
        self.chosen = chosen

    def __call__(self, clients: int, moment: Moment) -> list[int]:
        return self.chosen


def test_a_sampler_of_ones_own() -> None:
    _, [ended] = run(Own([0, 3]), rounds=1)
    assert ended.participants == 2


@pytest.mark.parametrize("chosen", [[1, 0], [0, 0], [4], [-1, 2]])
def test_a_sampler_that_chooses_badly_is_refused(chosen: list[int]) -> None:
    with pytest.raises(
        PartitaError, match=r"The sampler chose .* of 4 clients. It must return each number at most once"
    ):
        run(Own(chosen), rounds=1)
