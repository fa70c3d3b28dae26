"""What is told while something runs."""

from pathlib import Path
from typing import Any

import torch

from partita.algorithms.fedper import fedper
from partita.core.batching import Batching
from partita.experiment.events import Analysed, Event, RoundEnded, Waiting, ignore, under
from partita.experiment.experiment import Pretraining
from partita.experiment.result import Result
from partita.experiment.simulate import simulate
from toys import small_federation, small_network


def told(**options: Any) -> tuple[Result, list[RoundEnded]]:
    events: list[Event] = []
    result = simulate(
        fedper(),
        small_network(),
        small_federation((6, 5, 7)),
        on_event=events.append,
        **{"rounds": 4, "batching": Batching(3), "evaluate_every": 2, **options},
    )
    rounds = [event for event in events if isinstance(event, RoundEnded)]
    assert len(rounds) == len(events)
    return result, rounds


def test_every_round_is_told_with_what_is_new_in_it() -> None:
    result, ended = told(participation=[[0], [1, 2]])
    assert [(each.stage, each.round, each.rounds) for each in ended] == [("run", at, 4) for at in (1, 2, 3, 4)]
    assert [each.participants for each in ended] == [1, 2, 1, 2]
    assert [set(each.own) for each in ended] == [{0}, {1, 2}, {0}, {1, 2}]
    assert [bool(each.records) for each in ended] == [False, True, False, True]
    assert [each.score is None for each in ended] == [True, False, True, False]
    assert all(record.round == each.round for each in ended for record in each.records)
    assert all(row.round == each.round for each in ended for row in each.traffic)
    assert all(each.seconds > 0 and each.metric == "accuracy" for each in ended)
    assert result.records == [record for each in ended for record in each.records]
    assert result.traffic == [row for each in ended for row in each.traffic]
    assert result.score() == ended[-1].score
    last, kept = ended[-1], result.own
    assert all(
        torch.equal(kept[client][name], tensor) for client in (1, 2) for name, tensor in last.own[client].items()
    )


def test_stages_are_told_by_name() -> None:
    _, ended = told(rounds=1, pretrain=Pretraining(fedper(), 2))
    assert [(each.stage, each.round, each.rounds) for each in ended] == [
        ("pretrain", 1, 2),
        ("pretrain", 2, 2),
        ("run", 1, 1),
    ]


def test_rounds_can_be_told_under_a_name() -> None:
    _, ended = told(rounds=1, pretrain=Pretraining(fedper(), 1))
    heard: list[Event] = []
    tell = under("local", heard.append)
    others: list[Event] = [Waiting(Path("there")), Analysed("guard", 1, 2)]
    for event in (*ended, *others):
        tell(event)
    assert [each.stage for each in heard if isinstance(each, RoundEnded)] == ["local, pretrain", "local"]
    assert heard[2:] == others
    assert [each.stage for each in ended] == ["pretrain", "run"], "what others hear stays as it is"
    ignore(others[0])
