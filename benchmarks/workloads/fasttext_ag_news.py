"""FedPer with fastText on AG News: a large table of words, of which a batch touches a few."""

from torch import nn

from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.algorithms.fedper import fedper
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.data.federation import federate
from partita.data.sources.ag_news import ag_news
from partita.data.splits.dirichlet import dirichlet
from partita.models.fasttext import fasttext

WORDS = 98_635


def workload() -> Workload:
    """FedPer, fastText of 98,635 x 32, AG News by Dirichlet(0.1) among 20 clients, batches of 10, all evaluated."""
    data = federate(ag_news(), dirichlet(clients=20, alpha=0.1), length=200, validation=0.0)
    algorithm = fedper(epochs=1, optimizer=SGD(0.1))

    def model(*, shape: tuple[int, ...], classes: int) -> nn.Module:
        return fasttext(shape=shape, classes=classes, vocabulary=WORDS)

    def partita() -> Measured:
        return measured_round(algorithm, model, data, batching=Batching(10))

    return Workload(
        about=workload.__doc__ or "",
        contenders={"partita": partita},
        goals=[Goal("pfllib", "partita", at_least=8.0)],
        peers=["pfllib"],
        division=data,
    )
