"""A new method in one file: FedPer whose personal head is pulled towards the mean of all heads.

The head travels too, but a client does not take over what it receives: it begins with its own head and pays for its
distance from the received one. With `strength=0` the method is FedPer with one block and one epoch.
"""

from partita import (
    BODY,
    HEAD,
    NETWORK,
    SGD,
    Algorithm,
    Client,
    Phase,
    Proximal,
    Tensors,
    configurable,
    digits,
    dirichlet,
    fedavg,
    federate,
    fedper,
    mlp,
    simulate,
)


@configurable
def near_heads(*, strength: float = 0.1, epochs: int = 1, optimizer: SGD = SGD(0.1)) -> Algorithm:
    """Share everything; keep a personal head, pulled towards the mean of all heads."""

    def start(tensors: Tensors, client: Client) -> Tensors:
        """The received body under the client's own head."""
        head = HEAD(client.task.network, frozenset(client.received))
        return tensors | {name: value for name, value in client.received.items() if name not in head}

    pull = Proximal(strength, on=HEAD) if strength else None
    return Algorithm(
        shared=NETWORK,
        personal=HEAD,
        keep=HEAD,
        start=start,
        phases=(Phase(BODY | HEAD, optimizer, epochs=epochs, penalty=pull),),
    )


def main() -> None:
    data = federate(digits(), dirichlet(clients=6, alpha=0.3))
    methods = (near_heads(), fedper(epochs=1, optimizer=SGD(0.1)), fedavg(optimizer=SGD(0.1)))
    for method in methods:
        score = simulate(method, mlp, data, rounds=3).score()
        print(f"{method.name:12} {100 * score.macro:.1f} %")


if __name__ == "__main__":
    main()
