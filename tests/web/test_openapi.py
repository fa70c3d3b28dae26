"""Whatever the OpenAPI description allows, and what it does not, is answered without an error of the server's own."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core.result import Ok

from partita.web.app import application
from partita.web.catalogue import Catalogue, find_entries
from partita.web.limits import Limits
from repetition import repeated
from web.asking import Asking, asking

TOKEN = "a-token-of-many-letters"


def ask_everything(server: Asking, headers: dict[str, str], examples: int) -> dict[str, set[int]]:
    """Requests that fit the description and requests that do not; the statuses of the answers, by path."""
    seen: dict[str, set[int]] = {}
    for found in schemathesis.openapi.from_dict(server.get("/openapi.json").json()).get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            statuses = seen.setdefault(operation.label, set())
            # What has no parameters has no wrong ones.
            with suppress(Unsatisfiable):
                _ask(server, operation, headers, operation.as_strategy(generation_mode=mode), statuses, examples)
    return seen


def _ask(
    server: Asking, operation: Any, headers: dict[str, str], cases: Any, statuses: set[int], examples: int
) -> None:
    known = operation.definition.raw["responses"]

    @settings(
        max_examples=examples,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )
    @given(case=cases)
    def ask(case: Any) -> None:
        sent = case.as_transport_kwargs(base_url="http://localhost")
        body = {"json": sent["json"]} if "json" in sent else {"content": sent.get("data")}
        own = {**(sent.get("headers") or {}), **headers}
        answer = server.ask(sent["method"], sent["url"], params=sent.get("params"), headers=own, **body)
        statuses.add(answer.status_code)
        assert answer.status_code < 500
        assert str(answer.status_code) in known or answer.status_code in (404, 405), answer.text
        if answer.status_code >= 400:
            assert isinstance(answer.json()["detail"], str)

    ask()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::hypothesis.errors.NonInteractiveExampleWarning")
@pytest.mark.parametrize("examples", repeated([8, 200]))
def test_no_request_is_an_error_of_the_server(kept: Path, examples: int) -> None:
    """`examples` requests of each kind, for each path."""
    app = application(Catalogue(find_entries([kept / "digits"]), 1 << 20), Limits(rate=0), TOKEN)
    with asking(app) as server:
        seen = ask_everything(server, {"Authorization": f"Bearer {TOKEN}"}, examples)
    assert seen.keys() >= {"GET /health", "GET /runs", "GET /clients", "POST /predict", "POST /clients"}
    assert {200, 422} <= seen["GET /clients"]
    assert 422 in seen["POST /predict"]
