"""Your own data and your own network: who gains from learning together?

Eight sensors count steps. All measure the same things, but each numbers its four gaits in an order of its own.
"""

import torch
from torch import Tensor, nn

from partita import SGD, compare, fedavg, fedper, from_clients, run

draw = torch.Generator().manual_seed(0)
GAITS = 2 * torch.randn(4, 10, generator=draw)


def samples(sensor: int, count: int = 80) -> tuple[Tensor, Tensor]:
    gait = torch.randint(4, (count,), generator=draw)
    return GAITS[gait] + torch.randn(count, 10, generator=draw), (gait + sensor) % 4


class Net(nn.Module):
    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(shape[0], 32), nn.ReLU())
        self.head = nn.Linear(32, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.head(self.body(inputs))
        return answer


def main() -> None:
    data = from_clients({f"sensor {number}": samples(number) for number in range(8)}, seed=1)
    common = run(fedavg(optimizer=SGD(0.05)), Net, data, rounds=5, batching=16, folder="runs/fedavg", baselines="quick")
    personal = run(
        fedper(epochs=1, optimizer=SGD(0.05)), Net, data, rounds=5, batching=16, folder="runs/fedper", baselines="quick"
    )
    print(f"FedAvg {100 * common.score().macro:.1f} %, FedPer {100 * personal.score().macro:.1f} %")
    for gain in personal.gains():
        print(f"FedPer over {gain.over}: {100 * gain.mean:+.1f} points, {len(gain.hurt)} clients hurt")
    [difference] = compare(common, personal, baseline="fedavg").differences
    print(f"better than FedAvg for {difference.wins} of {difference.clients} clients")
    print(f"report: {personal.report()}")
    inputs, _ = samples(3, 2)
    labels, _ = personal.model("sensor 3").predict(inputs)
    print(f"sensor 3 answers {labels}")


if __name__ == "__main__":
    main()
