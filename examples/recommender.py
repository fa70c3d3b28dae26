"""Ratings of films: the properties of films are shared, the taste of a person is personal.

The ratings are synthetic: six kinds of film, and people who like two of them. For MovieLens, see
experiments/movielens.toml.
"""

import torch

from partita import SGD, fedavg, fedsim, from_clients, recommender, simulate, where

FILMS, KINDS, PEOPLE = 60, 6, 16


def ratings(draw: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Films by number, and what one person thinks of them."""
    liked = torch.randperm(KINDS, generator=draw)[:2]
    films = torch.randint(FILMS, (40,), generator=draw)
    likes = (films % KINDS).unsqueeze(1).eq(liked).any(1)
    return films, 3 + likes.float() * 2 - 1 + 0.3 * torch.randn(40, generator=draw)


def main() -> None:
    draw = torch.Generator().manual_seed(0)
    # An input is the number of a film, so every test row is also a training row of some client.
    data = from_clients(
        {f"person {n}": ratings(draw) for n in range(PEOPLE)}, kind="regression", indices=True, most_duplicates=1.0
    )

    def network(*, shape: tuple[int, ...], classes: int) -> torch.nn.Module:
        return recommender(shape=shape, classes=classes, items=FILMS, width=8, mean=3.0)

    optimizer = SGD(0.1)
    personal = fedsim(personal=where("user.*"), epochs=5, optimizer=optimizer)
    for method in (fedavg(epochs=5, optimizer=optimizer), personal):
        result = simulate(method, network, data, rounds=6, batching=10)
        print(f"{method.name}: RMSE {result.score().macro:.2f} in the mean over people")


if __name__ == "__main__":
    main()
