"""What did it cost? Bytes by part of the network, and time."""

from statistics import fmean

from ...formatting import byte_text, byte_unit, duration
from ...runs.target import spent
from ..charts.bars import Part, bars
from ..charts.frame import colour
from ..figure import Section, figure, grid, key, paragraph, section
from ..markup import Html
from ..method import Method
from ..scale import axis
from ..study import Study

PLACE = 110
TITLE = "Cost"


def cost(study: Study) -> Section:
    run = [method for method in study.methods if any(each.run.rounds for each in method.replicas)]
    if not run:
        return section("cost", TITLE, paragraph("No round is done yet.", class_="missing"))
    return section("cost", TITLE, grid(_traffic(run), _time(run)))


def _traffic(methods: list[Method]) -> Html:
    """Megabytes of a round by part of the network, summed over its participants."""
    found = {method.name: _groups(method) for method in methods}
    groups = list(dict.fromkeys(group for each in found.values() for group in each))
    most = max((sum(down + up for down, up in each.values()) for each in found.values()), default=0.0)
    unit, factor = byte_unit(most)
    parts = [
        [
            Part((down + up) / factor, colour(number), f"{name}, {group}: {byte_text(down)} down, {byte_text(up)} up")
            for number, group in enumerate(groups)
            for down, up in [each.get(group, (0, 0))]
        ]
        for name, each in found.items()
    ]
    rows = [
        [name, group, byte_text(down), byte_text(up)]
        for name, each in found.items()
        for group, (down, up) in each.items()
    ]
    rows += [[name, "all", "0 B", "0 B"] for name, each in found.items() if not each]
    if not most:
        return paragraph("Nothing is sent: these methods have no traffic.", class_="quiet")
    x = axis(f"{unit} in a round", [0, *(sum(part.value for part in several) for several in parts)], most=5)
    note = "Mean of a round, all its participants together, down and up."
    legend = key([(colour(number), group) for number, group in enumerate(groups)])
    chart = bars(f"{unit} of a round by method", x, list(found), parts)
    return figure("Traffic of a round", chart, ["method", "part", "down", "up"], rows, note, legend=legend)


def _groups(method: Method) -> dict[str, tuple[float, float]]:
    """Bytes of a round, down and up: the mean over runs of their means over rounds."""
    totals: dict[str, list[float]] = {}
    for each in method.replicas:
        rounds = max(each.run.done, 1) * len(method.replicas)
        for group, (down, up) in each.run.numbers.bytes_by_group().items():
            both = totals.setdefault(group, [0.0, 0.0])
            both[0] += down / rounds
            both[1] += up / rounds
    return {group: (down, up) for group, (down, up) in sorted(totals.items())}


def _time(methods: list[Method]) -> Html:
    each = {method.name: fmean(run.run.seconds_per_round for run in method.replicas) for method in methods}
    whole = {method.name: fmean(spent(run.run, run.run.done).seconds for run in method.replicas) for method in methods}
    parts = [
        [
            Part(
                taken,
                colour(method.number),
                f"{method.name}: {duration(taken)} a round, {duration(whole[method.name])} in all",
            )
        ]
        for method, taken in zip(methods, each.values(), strict=True)
    ]
    rows = [[name, duration(taken), duration(whole[name])] for name, taken in each.items()]
    note = "Wall clock of a round with its evaluation, where it was run; other machines differ."
    x = axis("seconds in a round", [0, *each.values()], most=5)
    return figure(
        "Time of a round",
        bars("Seconds of a round by method", x, list(each), parts),
        ["method", "a round", "all rounds"],
        rows,
        note,
    )
