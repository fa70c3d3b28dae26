"""Do the tests notice? Put one fault at a time into a copy of the engine, and see which test falls.

python tests/laws/faults.py prints a table. It fails if a fault survives, or if the tests fall without one.

One file, since most of it is one table.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    "laws/test_golden.py",
    "laws/test_oracles.py",
    "laws/test_laws.py",
    "laws/test_hazards.py",
    "laws/test_equivalences.py",
    "laws/test_invariants.py",
    "experiment/test_transport.py",
    "experiment/test_downloads.py",
    "engine/test_prefix.py",
    "engine/test_fast.py",
    "engine/test_stacked.py",
    "experiment/test_same_bits.py",
    "experiment/test_deaths.py",
    "experiment/test_interrupts.py",
    "engine/test_verification.py",
    "engine/test_kernels.py",
    "laws/test_objectives.py",
    "evaluation/test_gains.py",
    "runs/test_trust.py",
    "runs/test_states.py",
    "runs/test_guard.py",
    "runs/test_sick_clients.py",
    "deploy/test_faults.py",
)


@dataclass(frozen=True)
class Fault:
    """A text in a file of the engine that occurs once, what it becomes, and the tests that should notice first."""

    name: str
    file: str
    old: str
    new: str
    first: str


FAULTS = (
    Fault(
        "downloads ignored",
        "core/algorithm.py",
        "return tensors | client.received",
        "return tensors",
        "laws/test_oracles.py",
    ),
    Fault(
        "aggregation weights not normalised",
        "core/server.py",
        "return total / sent if",
        "return total / (sent + 1) if",
        "laws/test_golden.py",
    ),
    Fault(
        "personal part uploaded",
        "core/algorithm.py",
        "for n in algorithm.shared(network, universe) if",
        "for n in (algorithm.shared | NETWORK)(network, universe) if",
        "laws/test_laws.py",
    ),
    Fault(
        "penalty detached",
        "engine/reference.py",
        "phase.penalty(leaves, client)",
        "phase.penalty(leaves, client).detach()",
        "laws/test_hazards.py",
    ),
    Fault(
        "frozen part moving under weight decay",
        "engine/reference.py",
        "tensors = tensors | changes | trained",
        "decay = 1 - 0.01 * getattr(phase.optimizer, 'weight_decay', 0.0)\n"
        "            still = {n: t * decay for n, t in tensors.items() if n in network.parameters}\n"
        "            tensors = tensors | still | changes | trained",
        "laws/test_laws.py",
    ),
    Fault(
        "mask ignored",
        "core/server.py",
        "difference.masked_fill_(~mask, 0.0)",
        "difference.clone()",
        "laws/test_oracles.py",
    ),
    Fault(
        "wrong client's state",
        "experiment/jobs.py",
        "[states.get(each, {}) for each in some]",
        "[states.get((each + 1) % len(setup.data), {}) for each in some]",
        "laws/test_laws.py",
    ),
    Fault(
        "state not written back",
        "core/algorithm.py",
        "own=_kept(algorithm, client, after)",
        "own=_kept(algorithm, client, before)",
        "laws/test_laws.py",
    ),
    Fault(
        "off by one in the schedule",
        "core/schedules.py",
        "min(moment.round, moment.rounds - 1)",
        "min(moment.round + 1, moment.rounds - 1)",
        "laws/test_oracles.py",
    ),
    Fault(
        "one stream of random numbers for all clients",
        "core/client.py",
        "moment.round, self.id, epoch",
        "moment.round, 0, epoch",
        "laws/test_oracles.py",
    ),
    Fault(
        "momentum forgotten in the step in place",
        "engine/steps.py",
        "momentum=optimizer.momentum,",
        "momentum=0.0,",
        "engine/test_fast.py",
    ),
    Fault(
        "decay left out of the step in place",
        "engine/steps.py",
        "weight_decay=descent.decay,",
        "weight_decay=0.0,",
        "engine/test_fast.py",
    ),
    Fault(
        "pushed away instead of pulled near",
        "engine/steps.py",
        "distance = parameter - center",
        "distance = center - parameter",
        "engine/test_fast.py",
    ),
    Fault(
        "statistics of the module not taken back",
        "engine/training.py",
        "if name in sources}",
        "if name not in sources}",
        "engine/test_fast.py",
    ),
    Fault(
        "a network that gave its weights away holds whatever was freed",
        "engine/training.py",
        "tensor.data = torch.zeros_like(values)",
        "tensor.data = torch.empty_like(values)",
        "laws/test_laws.py",
    ),
    Fault(
        "batch norm backwards by running statistics",
        "engine/layers.py",
        "mean, scale, moving, part.eps, wanted",
        "mean, scale, False, part.eps, wanted",
        "engine/test_fast.py",
    ),
    Fault(
        "the bias of a pooled convolution left alone",
        "engine/layers.py",
        "take(part.bias, gradient.sum((0, 2, 3)))",
        "pass",
        "engine/test_fast.py",
    ),
    Fault(
        "what only fills up a batch is learned from",
        "engine/stacked.py",
        "gradient.mul_((real / count[:, None])[:, :, None])",
        "gradient.div_(count[:, None, None])",
        "engine/test_stacked.py",
    ),
    Fault(
        "decay of a client that has no step to make",
        "engine/stacked.py",
        "shrinkage * active)",
        "shrinkage * torch.ones_like(active))",
        "engine/test_stacked.py",
    ),
    Fault(
        "what comes before computed once although its norm moves",
        "engine/prefix.py",
        "if any(map(moving, before)):",
        "if not before:",
        "engine/test_prefix.py",
    ),
    Fault(
        "features of another body remembered",
        "engine/features.py",
        "and all(map(torch.equal, held, own))",
        "",
        "engine/test_prefix.py",
    ),
    Fault(
        "a client given the features of another",
        "engine/features.py",
        "        if client in self._kept:\n            return self._kept[client]",
        "        if self._kept:\n            return next(iter(self._kept.values()))",
        "engine/test_prefix.py",
    ),
    Fault(
        "every model measured with the first one's head",
        "evaluation/measurement.py",
        "partial(answer, own)",
        "partial(answer, next(iter(models.values())))",
        "engine/test_prefix.py",
    ),
    Fault(
        "a receiver writes into the sender's memory",
        "experiment/executors/_transport.py",
        "shared=False",
        "shared=True",
        "experiment/test_transport.py",
    ),
    Fault(
        "tensors where they happen to begin",
        "experiment/executors/_transport.py",
        "ALIGNMENT = 64",
        "ALIGNMENT = 16",
        "experiment/test_transport.py",
    ),
    Fault(
        "another tensor taken for one that is known",
        "experiment/executors/_transport.py",
        "key = (thing.data_ptr(), ",
        "key = (",
        "experiment/test_downloads.py",
    ),
    Fault(
        "results in the order in which they came",
        "experiment/rounds.py",
        'sorted(results, key=attrgetter("client"))',
        "list(results)",
        "experiment/test_same_bits.py",
    ),
    Fault(
        "the work of one who died given up",
        "experiment/executors/_pool.py",
        "if worker.attempts >= ATTEMPTS:",
        "if worker.attempts >= 1:",
        "experiment/test_deaths.py",
    ),
    Fault(
        "workers outlive their parent",
        "experiment/executors/_worker.py",
        "os._exit(1)",
        "return",
        "experiment/test_interrupts.py",
    ),
    Fault(
        "a shortcut that disagrees with the reference is used",
        "engine/verification.py",
        "if not distance <= rounding:",
        "if distance < 0:",
        "engine/test_verification.py",
    ),
    Fault(
        "weights beside those that only meet padding are not trained",
        "engine/kernels.py",
        "by_weight[cut] = by_kernel",
        "by_weight[cut] = 0 * by_kernel",
        "engine/test_kernels.py",
    ),
    Fault(
        "the bias of a large product follows the mean gradient",
        "engine/kernels.py",
        "gradient.sum(0) if by_bias",
        "gradient.mean(0) if by_bias",
        "engine/test_kernels.py",
    ),
    Fault(
        "FedAMP gives a client's own network the weight 1",
        "algorithms/fedamp.py",
        "own_weight = 1 - sum(weights)",
        "own_weight = 1.0",
        "laws/test_objectives.py",
    ),
    Fault(
        "GPFL pulls the embeddings too",
        "algorithms/gpfl.py",
        "embedding.detach()[batch.targets]",
        "embedding[batch.targets]",
        "laws/test_objectives.py",
    ),
    Fault(
        "FedCP shares the personal head",
        "algorithms/fedcp.py",
        "(after[n] + t) / 2",
        "after[n]",
        "laws/test_objectives.py",
    ),
    Fault(
        "an update that is not finite is aggregated",
        "experiment/jobs.py",
        "            check_sound(each, client, setup.experiment.max_update_norm)\n",
        "",
        "runs/test_sick_clients.py",
    ),
    Fault(
        "a name in a file may run code",
        "registry.py",
        "if not isinstance(name, Trusted):",
        "if not name:",
        "runs/test_trust.py",
    ),
    Fault(
        "damage of what is stored not noticed",
        "runs/blobs.py",
        "not isinstance(blob, bytes) or checksum(blob) != expected",
        "not isinstance(blob, bytes)",
        "runs/test_states.py",
    ),
    Fault(
        "the guard mixes the other way round",
        "evaluation/guard.py",
        "return weight * personal + (1 - weight) * shared",
        "return (1 - weight) * personal + weight * shared",
        "runs/test_guard.py",
    ),
    Fault(
        "clients that gain count as hurt",
        "evaluation/gains.py",
        "if each < 0)",
        "if each > 0)",
        "evaluation/test_gains.py",
    ),
    Fault(
        "a site keeps what the server did not accept",
        "deploy/personal.py",
        'if rounds.get("pending") == kept:',
        'if "pending" in rounds:',
        "deploy/test_faults.py",
    ),
)


def patched(fault: Fault, source: Path) -> tuple[Path, str]:
    """The file of the engine that holds a fault, and its text with it."""
    file = source / "partita" / fault.file
    text = file.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.name}: {fault.old!r} occurs {text.count(fault.old)} times in {fault.file}, not once.")
    return file, text.replace(fault.old, fault.new)


@contextmanager
def copy(fault: Fault | None) -> Iterator[Path]:
    """The engine and its tests in a folder of their own, with a fault."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        shutil.copy(ROOT / "pyproject.toml", place)
        if fault:
            file, text = patched(fault, place / "src")
            file.write_text(text, encoding="utf-8")
        yield place


def python(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(place / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True, check=False
    )


def first_to_fall(fault: Fault | None) -> str | None:
    """The first test that fails on a copy, or nothing."""
    ordered = sorted(TESTS, key=lambda test: fault is not None and test != fault.first)
    with copy(fault) as place:
        imported = python(place, "-c", "import partita; print(partita.__file__)").stdout.strip()
        if not Path(imported).is_relative_to(place):
            raise SystemExit(f"The copy was not imported, but {imported or 'nothing'}.")
        files = [f"tests/{test}" for test in ordered if (place / "tests" / test).exists()]
        ended = python(place, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *files)
    if ended.returncode == 0:
        return None
    fallen = [line for line in ended.stdout.splitlines() if line.startswith("FAILED tests/")]
    if ended.returncode != 1 or not fallen:
        raise SystemExit(f"The tests did not run:\n{ended.stdout}{ended.stderr}")
    return fallen[0].removeprefix("FAILED tests/").partition(" - ")[0]


def main() -> int:
    for fault in FAULTS:
        patched(fault, ROOT / "src")
    if fallen := first_to_fall(None):
        print(f"Without a fault {fallen} falls.")
        return 1
    print("| fault | file | test that fell |\n|---|---|---|")
    survived = 0
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for fault, fallen in zip(FAULTS, workers.map(first_to_fall, FAULTS), strict=True):
            survived += fallen is None
            print(f"| {fault.name} | {fault.file} | {f'`{fallen}`' if fallen else '**none**'} |", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
