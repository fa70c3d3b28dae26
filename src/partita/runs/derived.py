"""How does fine-tuning get a run of its own without training again? From the run of the method it is built on."""

from ..experiment.rounds import evaluate
from .commit import Commit
from .session import Session


def derive(made: Session, source: Session) -> None:
    """Fill the run of `finetune(on=METHOD)` from that of METHOD, which is done.

    Fine-tuning changes nothing in a round, so the rounds are the same to the bit; only the models are measured again.
    """
    if made.store.server("run") is None:
        found = source.store.server("run")
        assert found, "a run that is done has a state"
        last, state = found
        own = {client: source.store.own("run", client) or {} for client in source.store.clients("run")}
        trained = [record for record in source.store.records("run") if record.variant == "after_local"]
        measured, outcomes = evaluate(made.setup(), made.executor, own, state, last)
        made.store.commit(
            Commit(
                "run",
                last,
                state,
                own,
                rounds=tuple(source.store.rounds("run")),
                records=(*trained, *measured),
                traffic=tuple(source.store.traffic("run")),
                outcomes=tuple(outcomes),
            )
        )
    made.run()
