"""What do requests and answers look like? As pydantic checks them and OpenAPI describes them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=1000)]


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str


class Ask(BaseModel):
    """Inputs for a model: numbers as the data hold them, or texts."""

    model_config = ConfigDict(extra="forbid")

    client: Name = Field(description="The name of a client.", examples=["7"])
    run: Name | None = Field(None, description="The name of a run; needed if several are served.")
    model: Literal["personal", "global"] = "personal"
    inputs: list[Any] | None = Field(
        None, min_length=1, description="One item for each input: numbers in the shape of an input."
    )
    texts: list[Annotated[str, Field(max_length=100_000)]] | None = Field(
        None, min_length=1, description="Texts, for models that take them."
    )
    most: int = Field(20, ge=1, le=1000, description="Of more labels than this, the likeliest are given.")


class Join(BaseModel):
    """Samples of a newcomer, with labels; without labels where the next word of a text is predicted."""

    model_config = ConfigDict(extra="forbid")

    client: Name = Field(description="A name that no client has.", examples=["dora"])
    run: Name | None = None
    inputs: list[Any] | None = Field(None, min_length=1)
    texts: list[Annotated[str, Field(max_length=100_000)]] | None = Field(None, min_length=1)
    labels: list[Annotated[str, Field(max_length=1000)] | int | float] | None = Field(
        None, min_length=1, description="The right answer to each input. Texts whose next word is learned need none."
    )


class Joined(BaseModel):
    """A client that has a model now."""

    run: str
    client: str
    samples: int
    about: str
    guarded: bool
    kept: bool = Field(description="Whether it is there after the next start, as with --keep.")


class One(BaseModel):
    """The answer to one input."""

    label: str | None = Field(description="The likeliest label; null for a regression.")
    value: list[float] | None = Field(description="The answer of a regression.")
    labels: list[str]
    probabilities: list[float]


class Answer(BaseModel):
    """The answers to all inputs of a request."""

    run: str
    client: str
    model: Literal["personal", "global"]
    about: str = Field(description="Which model it is: the client's own, or what the guard chose.")
    guarded: bool = Field(description="Whether the guard chose another model than the personal one.")
    predictions: list[One]


class RunFacts(BaseModel):
    """A run, or exported models."""

    name: str
    problem: str | None = Field(description="Why it cannot be served.")
    method: str = ""
    data: str = ""
    clients: int = 0
    metric: str = ""
    lower_is_better: bool = False
    score: float | None = Field(None, description="The mean test score over clients.")
    report: bool = False


class Runs(BaseModel):
    runs: list[RunFacts]


class Signature(BaseModel):
    """What a model takes."""

    run: str
    kind: Literal["image", "text", "numbers"]
    shape: list[int]
    type: Literal["bytes", "numbers", "indices"]
    range: list[float] | None = Field(description="The smallest and the largest value of a picture.")
    takes: str
    has_global: bool
    no_global: str = Field(description="Why there is no global model.")


class Client(BaseModel):
    client: str
    samples: int | None = Field(description="Training samples.")
    score: float | None = Field(description="The test score of the personal model.")


class Clients(BaseModel):
    """Some of the clients of a run."""

    run: str
    total: int
    clients: list[Client]


class ClientFacts(BaseModel):
    """What is known of a client."""

    run: str
    client: str
    samples: int | None
    labels: list[str] | None
    counts: list[int] | None = Field(description="Training samples by label.")
    no_counts: str = Field(description="Why there are no counts.")
    scores: dict[str, float] = Field(description="By model: personal, guarded, global, local, floor.")
    new: bool = Field(description="Whether the client took no part in the training.")


class Health(BaseModel):
    status: Literal["ok"]
    runs: int
    personal_parts: int = Field(description="Personal parts in memory.")
