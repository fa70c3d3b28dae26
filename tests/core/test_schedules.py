"""Schedules: their values, and their text."""

import math

import pytest
from hypothesis import given, settings, strategies as st

from partita.core.schedules import CONSTANT, DECAY, Schedule, decay, exponential, linear, step
from partita.errors import PartitaError
from partita.randomness import Moment


def values(schedule: Schedule, rounds: int) -> list[float]:
    return [schedule(Moment(number, rounds)) for number in range(rounds)]


@pytest.mark.parametrize(
    ("text", "rounds", "expected"),
    [
        ("constant", 3, [1, 1, 1]),
        ("decay", 8, [1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01]),
        ("decay:0.5", 4, [1, 1, 0.5, 0.25]),
        ("decay:0.5,0.25", 4, [1, 0.5, 0.5, 0.5]),
        ("step:2", 5, [1, 1, 0.5, 0.5, 0.25]),
        ("step:2,0.1", 5, [1, 1, 0.1, 0.1, 0.01]),
        ("exponential:0.5", 4, [1, 0.5, 0.25, 0.125]),
        ("linear:0", 4, [1, 0.75, 0.5, 0.25]),
        ("linear:0.5", 4, [1 / 3, 2 / 3, 1, 0.5]),
        ("linear", 20, [1 / 3, 2 / 3, *(n / 18 for n in range(18, 0, -1))]),
    ],
)
def test_values_by_round(text: str, rounds: int, expected: list[float]) -> None:
    assert values(Schedule.parse(text), rounds) == pytest.approx(expected)


@pytest.mark.parametrize(("fraction", "rounds", "first"), [(0.75, 30, 22), (0.75, 100, 75), (0.29, 100, 29)])
def test_fractions_of_the_run_are_rounded_down(fraction: float, rounds: int, first: int) -> None:
    """Three quarters of 30 rounds are 22; 0.29 * 100 is 29 whatever the rounding error."""
    assert values(decay(0.5, fraction), rounds).index(0.5) == first


def test_a_rate_is_constant_within_a_round() -> None:
    schedule = exponential(0.5)
    assert {schedule(Moment(2, 4, epoch=epoch, step=step)) for epoch in range(3) for step in range(3)} == {0.25}


@pytest.mark.parametrize(
    "schedule", [CONSTANT, DECAY, step(3), exponential(0.9), linear(), linear(0), linear(1)], ids=str
)
def test_fine_tuning_after_the_last_round_has_a_rate_too(schedule: Schedule) -> None:
    assert 0 < schedule(Moment(10, 10)) <= 1


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 200))
def test_no_round_of_a_linear_schedule_is_lost(warm_up: float, rounds: int) -> None:
    assert min(values(linear(warm_up), rounds)) > 0


FACTORS = st.floats(0, 1)
SCHEDULES = st.one_of(
    st.just(CONSTANT),
    st.builds(decay, FACTORS, FACTORS, FACTORS),
    st.builds(decay, FACTORS),
    st.builds(step, st.integers(1, 10**7), FACTORS),
    st.builds(exponential, FACTORS),
    st.builds(linear, FACTORS),
)


@settings(deadline=None)
@given(SCHEDULES, st.integers(1, 40))
def test_text_can_be_parsed_again(schedule: Schedule, rounds: int) -> None:
    again = Schedule.parse(str(schedule))
    assert str(again) == str(schedule)
    assert values(again, rounds) == values(schedule, rounds)


@settings(deadline=None)
@given(st.integers(1, 10**9), st.integers(0, 3))
def test_a_step_is_as_long_as_it_says(every: int, passed: int) -> None:
    schedule = Schedule.parse(str(step(every, 0.5)))
    rounds = every * (passed + 1)
    assert schedule(Moment(every * passed, rounds)) == 0.5**passed
    assert schedule(Moment(rounds - 1, rounds)) == 0.5**passed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cosine", "Unknown schedule 'cosine'"),
        ("steps:5", "Did you mean 'step'"),
        ("", "Unknown schedule ''"),
        ("step", "For example: 'step:500,0.5'"),
        ("step:0", "every is 0.0, but must be at least 1"),
        ("step:2.5", "For example: 'step:500,0.5'"),
        ("step:ten", "For example: 'step:500,0.5'"),
        ("step:1,2,3", "For example: 'step:500,0.5'"),
        ("constant:1", "For example: 'constant'"),
        ("exponential", "For example: 'exponential:0.99'"),
        ("exponential:nan", "For example: 'exponential:0.99'"),
        ("decay:x", "For example: 'decay:0.1,0.5,0.75'"),
        ("linear:-0.1", "For example: 'linear:0.1'"),
        ("linear:1.5", "For example: 'linear:0.1'"),
        ("linear:0.1,0.2", "For example: 'linear:0.1'"),
    ],
)
def test_text_that_is_no_schedule_is_refused_with_an_example(text: str, words: str) -> None:
    with pytest.raises(PartitaError) as caught:
        Schedule.parse(text)
    assert words in str(caught.value)


@settings(deadline=None)
@given(SCHEDULES, st.integers(1, 50))
def test_rates_are_finite_and_never_above_one(schedule: Schedule, rounds: int) -> None:
    assert all(math.isfinite(value) and 0 <= value <= 1 + 1e-12 for value in values(schedule, rounds))
