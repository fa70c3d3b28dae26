"""What follows from the runs? A sentence: which method, by how much, how surely, and whom it hurts."""

from ..evaluation.comparison import Difference, compare
from ..experiment.left_out import MOST_NAMES
from ..formatting import amount, listed
from ..runs.gains import LEVEL, at_the_floor, over_floor
from .method import Method
from .study import Study


def conclusions(study: Study) -> list[str]:
    """One for each set of clients, with the name of the data where there are several."""
    parts = study.by_clients
    found = [(part.data, _conclusion(part)) for part in parts]
    return [f"{data}: {text}" if len(parts) > 1 else text for data, text in found if text]


def best_method(study: Study) -> Method | None:
    """The finished method with the best mean over clients and seeds, on the terms that most share."""
    known = [method for method in study.methods if method.finished and method.summaries and not _oracle(method)]
    return max(known, key=lambda method: study.metric.gain(method.mean, 0.0)) if known else None


def best_baseline(study: Study) -> str | None:
    """The reference that the conclusion compares the best method with; of no baselines, none."""
    best = best_method(study)
    rival = _rival(study, best) if best else None
    found = [name for name in study.references if best and rival and best.against.get(name) == rival.name]
    measured = (name for name in study.references if any(method.over(name) for method in study.methods))
    return next(iter(found), next(measured, None))


def _rival(study: Study, best: Method) -> Method | None:
    """The best of the baselines of a method."""
    rivals = [each for each in (*study.baselines, *study.methods) if each is not best and _serves(best, each)]
    return max(rivals, key=lambda each: study.metric.gain(each.mean, 0.0)) if rivals else None


def _conclusion(study: Study) -> str | None:
    best = best_method(study)
    if best is None:
        return None
    rival = _rival(study, best)
    said = f"{best.name} reaches {study.metric.text(best.mean)} in the mean over clients"
    finished = [method for method in study.methods if method.finished and method.summaries]
    if len(finished) > 1:
        what = "methods" if len(finished) == len(study.methods) else "finished methods"
        said = f"Of {len(finished)} {what} {best.name} is best: {study.metric.text(best.mean)} over clients"
    if rival is None:
        return f"{said}; there is no baseline to compare it with.{_at_the_floor(study, best)}{_left_out(study)}"
    difference = _difference(study, best, rival)
    lead = f"{_against(study, difference, best, rival)}{_next(study, best)}"
    return f"{said}, {lead}; {_harm(study, best)}.{_at_the_floor(study, best)}{_caveats(study, best)}{_left_out(study)}"


def _serves(best: Method, other: Method) -> bool:
    """Whether a method is a baseline of the best one."""
    return other.name in best.against.values() and bool(other.summaries)


def _difference(study: Study, one: Method, other: Method) -> Difference | None:
    if not one.scores.keys() & other.scores.keys():
        return None
    scores = {"one": one.scores, "other": other.scores}
    made = compare(scores, baseline="other", lower_is_better=study.metric.lower_is_better)
    return made.differences[0]


def _against(study: Study, difference: Difference | None, best: Method, rival: Method) -> str:
    name = f"its best baseline, {rival.name} ({study.metric.text(rival.mean)})"
    if difference is None:
        return f"which cannot be paired with {name}"
    sign = -1 if study.metric.lower_is_better else 1
    by = study.metric.change(sign * difference.mean)
    if difference.interval is None:
        return f"{by} against {name}, of one client and seed"
    low, high = sorted(sign * end for end in difference.interval)
    within = f"95 % interval {study.metric.change(low)} to {study.metric.change(high)}, {_sample(difference)}"
    within += _in_common(difference, best, rival)
    if low > 0 and _significant(difference):
        return f"surely better than {name}: {by} ({within})"
    if high < 0 and _significant(difference):
        return f"surely worse than {name}: {by} ({within})"
    if low > 0 or high < 0:
        within += f"; but p = {difference.p:.2g}: with so few, it may be chance"
    return f"not surely different from {name}: {by} ({within})"


def _significant(difference: Difference) -> bool:
    """Whether the test agrees: the bootstrap interval of a few clients is far too short."""
    return difference.p < LEVEL


def _sample(difference: Difference) -> str:
    seeds = "one seed" if difference.seeds == 1 else f"{difference.seeds} seeds"
    return f"{amount(difference.clients, 'client')}, {seeds}"


def _in_common(difference: Difference, one: Method, other: Method) -> str:
    """Said where a difference is of fewer pairs of seed and client than the means beside it."""
    return " that both have" if difference.pairs < max(len(one.scores), len(other.scores)) else ""


def _next(study: Study, best: Method) -> str:
    """The lead over the next method."""
    others = [each for each in study.methods if each is not best and each.finished and each.summaries]
    others = [each for each in others if not _oracle(each) and not _serves(best, each)]
    if not others:
        return ""
    second = max(others, key=lambda each: study.metric.gain(each.mean, 0.0))
    found = _difference(study, best, second)
    if found is None or found.interval is None:
        return ""
    sign = -1 if study.metric.lower_is_better else 1
    ahead = min(sign * end for end in found.interval) > 0 and _significant(found)
    sure = "surely" if ahead else "not surely"
    common = _in_common(found, best, second)
    of = f", {_sample(found)}{common}" if common else ""
    return f", and {sure} ahead of the next, {second.name} ({study.metric.change(sign * found.mean)}{of})"


def _harm(study: Study, best: Method) -> str:
    said = [f"{best.hurt_text(name)} against {name}" for name in study.references if best.over(name)]
    what = "clients hurt" if len(study.seeds) == 1 else "clients and seeds hurt"
    return f"{what}: {', '.join(said)}" if said else "whom it hurts is not known without baselines"


def _at_the_floor(study: Study, best: Method) -> str:
    """Said where a constant answer for each client is as good, or where it is not sure that it is not."""
    known = {each.run.seed: found for each in best.tested if (found := over_floor(each.run, each.variant))}
    said = at_the_floor(known, study.metric)
    return f" It is {said}." if said else ""


def _caveats(study: Study, best: Method) -> str:
    used = [each for each in study.baselines if each.name in best.against.values()]
    found = []
    if any("not tuned" in each.choice for each in used):
        found.append("The baselines are not tuned.")
    if best.marks:
        found.append(f"It is not on equal terms with the others: {', '.join(best.marks)}.")
    if study.remarks:
        found.append("Read the remarks on the baselines.")
    return "".join(f" {each}" for each in found)


def _left_out(study: Study) -> str:
    """The clients that any method was made without, of all rounds or of some."""
    found = {}
    for method in study.methods:
        absent = [each for replica in method.replicas for each in replica.run.left_out]
        if names := list(dict.fromkeys(each.name for each in absent)):
            more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
            found[method.name] = listed(names[:MOST_NAMES]) + more
    return "".join(f" Left out of rounds of {name}: {clients}." for name, clients in found.items())


def _oracle(method: Method) -> bool:
    return any(each.run.record.oracle_validation for each in method.replicas)
