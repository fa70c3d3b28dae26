"""What does the page of reproductions say? Everything on it is made from recipes and stored results."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..formatting import NONE, amount, duration
from .judge import ClaimVerdict, Verdict, is_published_protocol, judge_claims, judge_numbers, measured
from .measure import Found
from .pictures import Drawn, pictures
from .recipe import Number, Paper, Recipe, runs_of
from .result import RecipeResult, RunResult, results_or_none

PAPERS: dict[Paper, str] = {
    "flayer": "FLAYER (Chen et al., 2024)",
    "fedbabu": "FedBABU (Oh et al., 2022)",
    "partial": "FedSim and FedAlt (Pillutla et al., 2022)",
    "fedper": "FedPer (Arivazhagan et al., 2019)",
    "partita": "Our own",
}
COMMAND = "partita recipe page"
PICTURES = "reproduction"
"""The folder of pictures beside the page."""
SHOWN = 12
"""A table of more numbers than this, none of which was run, is folded."""
HEAD = f"""# Reproduction

The experiments of four papers, with the published numbers beside ours. This page and its pictures are made from the
recipes and results in `src/partita/recipes/files` by `{COMMAND}`; a test fails where they disagree. Do not edit it.
[What we learned](learned.md) says in plain words what follows from it.

Numbers are per cent, unless they are rounds or errors. Ours have a 95 % interval: seeds and clients are drawn again
with replacement, 2000 times. With one seed the interval is over clients alone, and another seed may move a number
further than it says. Differences are paired over clients and seeds where both runs have the same ones. Only a run of
the published protocol can reproduce a number, or a claim in full; any other can reproduce an ordering.

| verdict | of a number | of a claim |
|---|---|---|
| reproduced | it differs by no more than both intervals explain | every difference is surely as large as claimed |
| ordering reproduced | surely above and below the same others as published | every difference is surely positive |
| not reproduced | surely on the wrong side of another number | a difference is surely negative |
| undecided | an interval includes zero: this much data cannot tell | likewise |
| not run here | no stored result decides it; the reason says what it would take | likewise |
| published number not a valid target | what was published is not what it is called | |
| nothing published | ours alone | |

*Surely*: the interval does not include zero.
"""


def page(recipes: Sequence[Recipe], results: Path) -> str:
    """The page as Markdown."""
    stored = {recipe.name: results_or_none(results, recipe) for recipe in recipes}
    parts = [HEAD, _claims(recipes, stored)]
    for paper, title in PAPERS.items():
        own = [recipe for recipe in recipes if recipe.paper == paper]
        if own:
            parts += [f"## {title}\n", *(_section(recipe, stored[recipe.name]) for recipe in own)]
    return "\n".join(parts)


def drawn_pictures(recipes: Sequence[Recipe], results: Path) -> dict[str, Drawn]:
    """All pictures of the page, by the name of their file."""
    return {
        _file(recipe, result, each): each
        for recipe in recipes
        for result in results_or_none(results, recipe)
        if result
        for each in pictures(recipe, result)
    }


def _claims(recipes: Sequence[Recipe], stored: Mapping[str, Sequence[RecipeResult | None]]) -> str:
    """Every claim of the papers, with the best that any recipe says of it."""
    judged: dict[tuple[str, int, str], list[tuple[Recipe, ClaimVerdict]]] = {}
    for recipe in recipes:
        for result in stored[recipe.name]:
            for each in judge_claims(recipe, result):
                judged.setdefault(each.claim.order, []).append((recipe, each))
    counts = Counter(_decided(several)[1].verdict for several in judged.values())
    told = ", ".join(f"{counts[each]} {each.value}" for each in Verdict if counts[each])
    lines = [
        "## Claims",
        "",
        f"Of {len(judged)} statements: {told}. Where one has several verdicts, a failure is shown first.",
        "",
        "| claim | verdict | where | if not run: what it would take on two cores |",
        "|---|---|---|---|",
    ]
    for key in sorted(judged):
        recipe, best = _decided(judged[key])
        needed = _needed(recipe, best) if best.verdict is Verdict.NOT_RUN else ""
        where = f"[{recipe.name}](#{_anchor(recipe)})"
        lines.append(f"| {best.claim.id}: {best.claim.statement} | {best.verdict.value} | {where} | {needed} |")
    return "\n".join([*lines, ""])


def _decided(several: Sequence[tuple[Recipe, ClaimVerdict]]) -> tuple[Recipe, ClaimVerdict]:
    """A failure comes first, even if there is a success elsewhere; then what was decided; what was not run is last."""
    order = [Verdict.NOT, Verdict.REPRODUCED, Verdict.ORDERING, Verdict.UNDECIDED, Verdict.NOT_RUN]
    return min(several, key=lambda each: (order.index(each[1].verdict), each[0].small is None))


def _needed(recipe: Recipe, judged: ClaimVerdict) -> str:
    if judged.claim.untested:
        return judged.claim.untested
    names = {*judged.claim.higher, *judged.claim.lower}
    wanted = {run for number in recipe.numbers if number.name in names for run in runs_of(number)}
    made = recipe.small and wanted <= {*recipe.runs_of("small"), *recipe.borrowed_of("small")}
    small = f"{recipe.small.minutes:g} min for the small variant, " if recipe.small and made else ""
    return f"{small}{recipe.hours:g} h for the published one"


def _anchor(recipe: Recipe) -> str:
    return recipe.name.replace("_", "-")


def _section(recipe: Recipe, results: Sequence[RecipeResult | None]) -> str:
    lines = [f'<a id="{_anchor(recipe)}"></a>', "", f"### {recipe.shows}: {recipe.title}", ""]
    lines += [f"`partita recipe show {recipe.name}` has the settings of every run.", ""]
    if recipe.obstacle:
        lines += [recipe.obstacle, ""]
    lines += _list("Deviations:", recipe.deviations)
    for result in results:
        lines += _result(recipe, result)
    if results[0]:
        lines += _list("What we think of it:", recipe.notes)
    return "\n".join(lines)


def _list(title: str, items: Sequence[str]) -> list[str]:
    return [title, "", *(f"- {each}" for each in items), ""] if items else []


def _result(recipe: Recipe, result: RecipeResult | None) -> list[str]:
    lines = []
    if result is not None:
        lines += [_origin(recipe, result), ""]
    lines += _number_tables(recipe, result)
    if result is not None and result.baselines:
        told = [f"{name} {_baseline(recipe, result, name)}" for name in result.baselines]
        lines += ["", f"Beside them: {'; '.join(told)}."]
    if recipe.claims:
        lines += ["", "| claim | verdict | reason |", "|---|---|---|"]
        for claim in judge_claims(recipe, result):
            lines.append(f"| {claim.claim.id}: {claim.claim.statement} | {claim.verdict.value} | {claim.reason} |")
    if result is not None:
        for each in pictures(recipe, result):
            lines += ["", *_picture(recipe, result, each)]
    return [*lines, ""]


def _picture(recipe: Recipe, result: RecipeResult, each: Drawn) -> list[str]:
    rows = ["| " + " | ".join(row) + " |" for row in each.table.rows]
    return [
        f"**{each.title}** {each.note}",
        "",
        f"![{each.title}]({PICTURES}/{_file(recipe, result, each)})",
        "",
        '<details markdown="1"><summary>Numbers</summary>',
        "",
        "| " + " | ".join(each.table.columns) + " |",
        "|" + "---|" * len(each.table.columns),
        *rows,
        "",
        "</details>",
    ]


def _file(recipe: Recipe, result: RecipeResult, each: Drawn) -> str:
    size = "" if result.size == "full" else f"-{result.size}"
    return f"{recipe.name}{size}-{each.name}.svg"


def _number_tables(recipe: Recipe, result: RecipeResult | None) -> list[str]:
    """The table published / ours / verdict; and, folded where it is long, that of numbers that were not run."""
    judged = judge_numbers(recipe, result)
    measured_here = [each for each in judged if each.ours]
    others = [each for each in judged if not each.ours and each.number.published is not None]
    lines = []
    if measured_here:
        lines += ["| | published | where | ours | verdict | reason |", "|---|---|---|---|---|---|"]
        lines += [
            f"| {each.number.name} | {published_text(each.number)} | {each.number.where or NONE} "
            f"| {each.ours.text if each.ours else NONE} | {each.verdict.value} | {each.reason} |"
            for each in measured_here
        ]
    if others:
        rows = ["| published, not run here | | where | valid target |", "|---|---|---|---|"]
        rows += [
            f"| {each.number.name} | {published_text(each.number)} | {each.number.where} "
            f"| {f'no: {each.number.invalid}' if each.number.invalid else 'yes'} |"
            for each in others
        ]
        title = f"{amount(len(others), 'published number')} not run here"
        folded = ['<details markdown="1">', f"<summary>{title}</summary>", "", *rows, "", "</details>"]
        lines += ["", *(folded if len(others) > SHOWN or measured_here else rows)]
    return lines


def published_text(number: Number) -> str:
    if number.published is None:
        return NONE
    return f"{number.published:.2f}" + (f" ± {number.spread:.2f}" if number.spread is not None else "")


def _origin(recipe: Recipe, result: RecipeResult) -> str:
    runs = list(result.runs.values())
    made = result.environment
    changed = "" if result.size == "full" or not recipe.small else f" The small variant: {recipe.small.changed}"
    protocol = "the published protocol" if is_published_protocol(recipe, result) else "not the published protocol"
    commits = ", ".join(sorted({run.commit[:10] for run in runs if run.commit}))
    dates = " to ".join(dict.fromkeys((min(run.date for run in runs), max(run.date for run in runs))))
    seeds, clients = (sorted({len(each) for each in several}) for several in zip(*_sizes(runs), strict=True))
    return (
        f"`{result.command}` ({protocol}; {dates}, commit {commits}, torch {made['packages']['torch']}, "
        f"{amount(made['cores'], 'core')} {made['machine']}): {_range(seeds, 'seed')}, {_range(clients, 'client')}, "
        f"{duration(sum(run.seconds for run in runs))} of rounds.{changed}"
    )


def _sizes(runs: Sequence[RunResult]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    return ((run.seeds, run.clients) for run in runs)


def _range(counts: Sequence[int], what: str) -> str:
    return amount(counts[0], what) if len(counts) == 1 else f"{counts[0]} to {amount(counts[-1], what)}"


def _baseline(recipe: Recipe, result: RecipeResult, name: str) -> str:
    found, choice = measured(Found(recipe, result).baseline(name)), result.baselines[name].choice
    return (found.text if found else NONE) + (f", {choice}" if choice else "")
