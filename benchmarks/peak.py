"""What share of the machine's peak does each floor reach? `python -m benchmarks.peak [WORKLOAD]...`

The peak is that of large products of matrices in as many processes as the floors have; it comes first and last, since
processors slow down. Operations are those of a floor's products and convolutions, counted by torch on a forward pass:
a step takes them once forwards, once for the gradients of what comes in, and once more in layers that are trained.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence

import torch

from benchmarks.measuring import load
from benchmarks.processes import in_processes
from benchmarks.workload import Workload
from partita.cli.options import use_one_thread
from partita.engine.kernels import linear

SIDE, TIMES = 2048, 20
FLOORS = (
    "mobilenet_fedbabu",
    "resnet18_fedper",
    "resnet18_gn_fedalt",
    "word_transformer_fedalt",
    "har_convnet_fedper",
    "recommender_fedsim",
)


def peak() -> float:
    """Operations in a second of two processes with a thread each, all in large products."""

    def prepare(places: Sequence[int]) -> Callable[[], None]:
        one, other = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)

        def work() -> None:
            for _ in range(TIMES):
                linear(one, other)

        return work

    return 2 * TIMES * 2 * SIDE**3 / in_processes(prepare, [1, 1]).seconds


def floor(workload: Workload, repeat: int) -> tuple[float, float]:
    """Operations of its round, and its seconds."""
    assert workload.operations is not None, "the workload has no floor whose operations are counted"
    return workload.operations(), statistics.median(workload.contenders["floor"]().seconds for _ in range(repeat))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=FLOORS)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    use_one_thread()
    before = peak()
    found = {name: floor(load(name), options.repeat) for name in options.workloads}
    most = max(before, peak())
    print(f"peak: {most / 1e9:.0f} GFLOP/s")
    for name, (count, seconds) in found.items():
        print(f"{name}: {count / 1e9:.0f} GFLOP, {count / seconds / 1e9:.0f} GFLOP/s, {count / seconds / most:.0%}")


if __name__ == "__main__":
    main()
