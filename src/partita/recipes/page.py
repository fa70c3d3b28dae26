"""What does the page of reproductions say? Everything on it is made from recipes and stored results."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..formatting import NONE, amount, duration
from .judge import Verdict, is_published_protocol, judge_claims, judge_numbers, measured
from .recipe import Number, Paper, Recipe
from .result import RecipeResult, results_or_none

PAPERS: dict[Paper, str] = {
    "flayer": "FLAYER (Chen et al., 2024)",
    "fedbabu": "FedBABU (Oh et al., 2022)",
    "partial": "FedSim and FedAlt (Pillutla et al., 2022)",
    "fedper": "FedPer (Arivazhagan et al., 2019)",
    "partita": "Our own",
}
COMMAND = "partita recipe page"

HEAD = f"""# Reproduction

The experiments of four papers, with the published numbers beside ours. This page is made from `recipes/` and
`recipes/results/` by `{COMMAND}`; a test fails where they disagree. Do not edit it.

Numbers are per cent. Ours have a 95 % interval: seeds and clients are drawn again with replacement, 2000 times.
Differences are paired over clients and seeds where both runs have the same ones. Only a run of the published protocol
can reproduce a number, or a claim in full; any other can reproduce an ordering.

| verdict | of a number | of a claim |
|---|---|---|
| reproduced | it differs by no more than both intervals explain | every difference is surely as large as claimed |
| ordering reproduced | surely above and below the same others as published | every difference is surely positive |
| not reproduced | not surely so; the reason says where | not surely so |
| not run here | no stored result decides it | likewise |
| published number not a valid target | what was published is not what it is called | |
| nothing published | ours alone | |
"""


def page(recipes: Sequence[Recipe], results: Path) -> str:
    """The page as Markdown."""
    parts = [HEAD, _overview(recipes, results)]
    for paper, title in PAPERS.items():
        own = [recipe for recipe in recipes if recipe.paper == paper]
        if own:
            parts += [f"## {title}\n", *(_section(recipe, results_or_none(results, recipe.name)) for recipe in own)]
    return "\n".join(parts)


def _overview(recipes: Sequence[Recipe], results: Path) -> str:
    counts: Counter[Verdict] = Counter()
    for recipe in recipes:
        stored = results_or_none(results, recipe.name)
        counts.update(each.verdict for result in stored for each in judge_claims(recipe, result))
    told = ", ".join(f"{each.value} {counts[each]}" for each in Verdict if counts[each])
    return f"Verdicts on claims: {told}.\n"


def _section(recipe: Recipe, results: Sequence[RecipeResult | None]) -> str:
    lines = [f"### {recipe.shows}: {recipe.title}", "", f"`partita recipe show {recipe.name}`", ""]
    if recipe.obstacle:
        lines += [recipe.obstacle, ""]
    if recipe.deviations:
        lines += ["Deviations:", "", *(f"- {each}" for each in recipe.deviations), ""]
    for result in results:
        lines += _result(recipe, result)
    if results[0] and recipe.notes:
        lines += ["What we think of it:", "", *(f"- {each}" for each in recipe.notes), ""]
    return "\n".join(lines)


def _result(recipe: Recipe, result: RecipeResult | None) -> list[str]:
    lines = []
    if result is not None:
        lines += [_origin(recipe, result), ""]
    lines += number_rows(recipe, result)
    if result is not None and result.baselines:
        told = [f"{name} {_baseline(recipe, result, name)}" for name in result.baselines]
        lines += ["", f"Beside them: {'; '.join(told)}."]
    if recipe.claims:
        lines += ["", "| claim | verdict | reason |", "|---|---|---|"]
        for claim in judge_claims(recipe, result):
            lines.append(f"| {claim.claim.id}: {claim.claim.statement} | {claim.verdict.value} | {claim.reason} |")
    return [*lines, ""]


def number_rows(recipe: Recipe, result: RecipeResult | None) -> list[str]:
    """The table published / ours / verdict, as Markdown."""
    lines = ["| | published | where | ours | verdict | reason |", "|---|---|---|---|---|---|"]
    for each in judge_numbers(recipe, result):
        ours = each.ours.text if each.ours else NONE
        lines.append(
            f"| {each.number.name} | {published_text(each.number)} | {each.number.where or NONE} "
            f"| {ours} | {each.verdict.value} | {each.reason} |"
        )
    return lines


def published_text(number: Number) -> str:
    if number.published is None:
        return NONE
    return f"{number.published:.2f}" + (f" ± {number.spread:.2f}" if number.spread is not None else "")


def _origin(recipe: Recipe, result: RecipeResult) -> str:
    first = next(iter(result.runs.values()))
    made = result.environment
    changed = "" if result.size == "full" or not recipe.small else f" The small variant: {recipe.small.changed}"
    protocol = "the published protocol" if is_published_protocol(recipe, result) else "not the published protocol"
    return (
        f"`{result.command}` ({protocol}; {result.date}, commit {str(made['commit'])[:10]}, torch "
        f"{made['packages']['torch']}, {amount(made['cores'], 'core')} {made['machine']}): "
        f"{amount(len(first.seeds), 'seed')}, {amount(len(first.clients), 'client')}, "
        f"{duration(sum(run.seconds for run in result.runs.values()))} of rounds.{changed}"
    )


def _baseline(recipe: Recipe, result: RecipeResult, name: str) -> str:
    run = result.baselines[name]
    average = recipe.numbers[0].average if recipe.numbers else "macro"
    found = measured(run, Number(name=name, average=average))
    return (found.text if found else NONE) + (f", {run.choice}" if run.choice else "")
