"""What the server answers: to good requests, to bad ones, and to those that are not allowed.

One file, since all requests are sent to one server of one run.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch

from partita.errors import PartitaError
from partita.serving.artefact import load_exported
from partita.serving.export import export_models
from partita.serving.loaded import LoadedRun, load
from partita.serving.newcomers import keep_newcomer
from partita.serving.onboard import onboard, write_newcomer
from partita.serving.questions import Questions, questions_of
from partita.web.app import application
from partita.web.catalogue import Catalogue, find_entries
from partita.web.limits import Limits
from partita.web.server import bind, read_token
from web.asking import Asking, asking

BLANK = [[[0.0] * 8] * 8]
LIMITS = Limits(rate=0)
TOKEN = "a-token-of-many-letters"


@pytest.fixture(scope="module")
def folder(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    shutil.copytree(kept, made, dirs_exist_ok=True)
    export_models(load(made / "digits"), made / "exported", clients=[0, 3, 5])
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> LoadedRun:
    return load(folder / "digits")


def client_of(
    folder: Path,
    limits: Limits = LIMITS,
    token: str | None = None,
    budget: int = 1 << 30,
    keep: Path | None = None,
) -> AbstractContextManager[Asking]:
    return asking(application(Catalogue(find_entries([folder], keep=keep), budget), limits, token))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Asking]:
    with client_of(folder) as made:
        yield made


def ask(server: Asking, **changes: Any) -> Any:
    body = {"run": "digits", "client": "3", "inputs": [BLANK]} | changes
    return server.post("/predict", content=json.dumps(body), headers={"content-type": "application/json"})


def test_answers_are_those_of_the_client_model(server: Asking, run: LoadedRun) -> None:
    rows = run.experiment.data[3].test.stored
    for name, model in (("personal", run.model("3")), ("global", run.global_model())):
        labels, probabilities = model.predict(rows)
        found = ask(server, inputs=rows.tolist(), model=name).json()
        assert [each["label"] for each in found["predictions"]] == labels
        given = torch.tensor([each["probabilities"] for each in found["predictions"]])
        assert probabilities is not None
        torch.testing.assert_close(given, probabilities, rtol=1e-4, atol=1e-6)
        assert found["about"] == str(model.about)


def test_exported_models_answer_as_their_run(server: Asking) -> None:
    one, other = (ask(server, run=name).json()["predictions"] for name in ("digits", "exported"))
    assert one[0]["label"] == other[0]["label"]
    assert one[0]["probabilities"] == pytest.approx(other[0]["probabilities"], rel=1e-5)
    assert server.get("/clients", params={"run": "exported"}).json()["total"] == 3
    facts = server.get("/clients/5", params={"run": "exported"}).json()
    assert facts["counts"] is None
    same = server.get("/clients/5", params={"run": "digits"}).json()
    assert facts["scores"]["personal"] == same["scores"]["personal"]
    assert server.get("/report", params={"run": "exported"}).status_code == 404


def test_of_many_labels_the_likeliest_are_given(server: Asking) -> None:
    [all_] = ask(server).json()["predictions"]
    [few] = ask(server, most=3).json()["predictions"]
    assert all_["labels"] == [str(label) for label in range(10)]
    order = sorted(range(10), key=lambda at: -all_["probabilities"][at])[:3]
    assert few["labels"] == [str(at) for at in order]
    assert sum(all_["probabilities"]) == pytest.approx(1)


def test_what_is_known_of_runs_and_clients(server: Asking, run: LoadedRun) -> None:
    listed = {each["name"]: each for each in server.get("/runs").json()["runs"]}
    assert listed.keys() == {"digits", "half", "exported"}
    assert "partita resume" in listed["half"]["problem"]
    assert listed["digits"]["score"] == pytest.approx(run.stored.summaries()["before_local"].macro)
    found = server.get("/clients", params={"run": "digits", "find": "3"}).json()
    assert found["total"] == 1
    assert found["clients"][0]["client"] == "3"
    facts = server.get("/clients/3", params={"run": "digits"}).json()
    train = run.experiment.data[3].train.targets
    assert facts["counts"] == torch.bincount(train, minlength=10).tolist()
    assert facts["samples"] == len(train)
    assert facts["scores"].keys() == {"personal", "guarded", "global", "local", "floor"}
    assert facts["scores"]["personal"] == run.stored.scores()[3]
    signature = server.get("/signature", params={"run": "digits"}).json()
    assert (signature["kind"], signature["shape"], signature["has_global"]) == ("image", [1, 8, 8], True)
    assert "<html" in server.get("/report", params={"run": "digits"}).text


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"client": "33"}, 404, "Unknown client '33'"),
        ({"client": "\ud800"}, 422, "body.client"),
        ({"run": "mine"}, 404, "Unknown run 'mine'"),
        ({"run": None}, 422, "name one of them"),
        ({"run": "half"}, 503, "partita resume"),
        ({"client": 3}, 422, "body.client"),
        ({"inputs": None}, 422, "either inputs or texts"),
        ({"inputs": []}, 422, "body.inputs"),
        ({"texts": ["a"]}, 422, "either inputs or texts"),
        ({"inputs": None, "texts": ["a"]}, 422, "not texts"),
        ({"inputs": ["a"]}, 422, "give them as texts"),
        ({"inputs": [[1, 2]]}, 422, "1 x 8 x 8"),
        ({"inputs": [[1], [1, 2]]}, 422, "one shape"),
        ({"inputs": [[[[float("nan")] * 8] * 8]]}, 422, "finite"),
        ({"inputs": [[[[float("inf")] * 8] * 8]]}, 422, "finite"),
        ({"inputs": [[[[1e300] * 8] * 8]]}, 422, "too large"),
        ({"inputs": [[[[10**400] * 8] * 8]]}, 422, "type object"),
        ({"inputs": [[[[None] * 8] * 8]]}, 422, "type object"),
        ({"inputs": [{}]}, 422, "type object"),
        ({"inputs": [BLANK] * 300}, 422, "at most 256"),
        ({"model": "other"}, 422, "personal"),
        ({"most": 0}, 422, "body.most"),
        ({"unknown": 1}, 422, "body.unknown"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(server: Asking, changes: dict[str, Any], status: int, reason: str) -> None:
    found = ask(server, **changes)
    assert found.status_code == status, found.text
    assert reason in found.json()["detail"]
    assert "\n" not in found.json()["detail"]
    assert ask(server).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"client": ' + b"9" * 5000 + b"}"]
)
def test_a_body_that_is_no_request(server: Asking, body: bytes) -> None:
    found = server.post("/predict", content=body, headers={"content-type": "application/json"})
    assert found.status_code in (400, 422)
    assert isinstance(found.json()["detail"], str)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nowhere", 404),
        ("/page/../app.py", 404),
        ("/page/secret", 404),
        ("/clients/33?run=digits", 404),
        ("/clients/%00?run=digits", 404),
        ("/clients/%ff?run=digits", 404),
        ("/clients?run=digits&limit=0", 422),
        ("/clients?run=digits&offset=-1", 422),
        ("/clients?run=half", 503),
        ("/clients", 422),
        ("/report?run=half", 200),
    ],
)
def test_other_paths(server: Asking, path: str, status: int) -> None:
    assert server.get(path).status_code == status


def test_a_token_guards_everything_but_the_page(folder: Path) -> None:
    with client_of(folder, token=TOKEN) as server:
        for path in ("/", "/health", "/page/page.js", "/openapi.json"):
            assert server.get(path).status_code == 200
        for path in ("/runs", "/clients?run=digits", "/metrics", "/report?run=digits"):
            assert server.get(path).status_code == 401
        assert ask(server).status_code == 401
        wrong = {"Authorization": f"Bearer {TOKEN}s"}
        assert server.get("/runs", headers=wrong).status_code == 401
        assert server.get("/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def join(server: Asking, **changes: Any) -> Any:
    body = {"run": "digits", "client": "dora", "inputs": [BLANK, BLANK], "labels": ["1", 2]} | changes
    return server.post("/clients", json=body, headers={"Authorization": f"Bearer {TOKEN}"})


def test_a_client_joins_while_the_server_runs(folder: Path, run: LoadedRun) -> None:
    with client_of(folder, token=TOKEN) as server:
        authorized = {"Authorization": f"Bearer {TOKEN}"}
        data = run.experiment.data[3].train
        given = {"inputs": data.stored.tolist(), "labels": data.targets.tolist()}
        found = join(server, **given)
        assert found.status_code == 201, found.text
        assert found.json()["samples"] == len(data)
        assert not found.json()["kept"]
        wanted = onboard(run, "dora", Questions(data.stored.numpy(), [""] * len(data), list(map(str, given["labels"]))))
        _, probabilities = wanted.model.predict(data.stored[:5])
        body = {"run": "digits", "client": "dora", "inputs": given["inputs"][:5]}
        answers = server.post("/predict", json=body, headers=authorized).json()
        assert probabilities is not None
        shown = torch.tensor([each["probabilities"] for each in answers["predictions"]])
        torch.testing.assert_close(shown, probabilities, rtol=1e-4, atol=1e-6)
        assert answers["about"] == str(wanted.model.about)
        facts = server.get("/clients/dora", params={"run": "digits"}, headers=authorized).json()
        assert (facts["new"], facts["samples"]) == (True, len(data))
        assert server.get("/clients", params={"run": "digits"}, headers=authorized).json()["total"] == 9
        for changes, reason in (
            ({}, "already"),
            ({"client": "3"}, "already"),
            ({"client": "eve", "labels": ["1"]}, "2 inputs, but 1 labels"),
            ({"client": "eve", "labels": None}, "has no labels"),
            ({"client": "eve", "labels": ["1", "eleven"]}, "eleven"),
            ({"client": "eve", "inputs": [[1], [2]]}, "1 x 8 x 8"),
            ({"client": "eve", "run": "exported"}, "Onboard clients to the run"),
        ):
            refused = join(server, **changes)
            assert refused.status_code == 422, refused.text
            assert reason in refused.json()["detail"]


def test_who_joined_is_there_after_the_next_start(folder: Path, run: LoadedRun, tmp_path: Path) -> None:
    keep, authorized = tmp_path / "newcomers", {"Authorization": f"Bearer {TOKEN}"}

    def started() -> AbstractContextManager[Asking]:
        return client_of(folder, token=TOKEN, keep=keep)

    def answered(server: Asking, client: str) -> Any:
        body = {"run": "digits", "client": client, "inputs": given["inputs"][:5]}
        return server.post("/predict", json=body, headers=authorized)

    data = run.experiment.data[3].train
    given = {"inputs": data.stored.tolist(), "labels": data.targets.tolist()}
    with started() as server:
        assert join(server, **given).json()["kept"]
        assert join(server, client="../Dora", **given).status_code == 201
        before = answered(server, "dora").json()
        # A disk that is full, as far as the server can tell: nobody is added.
        (keep / "digits").rename(tmp_path / "away")
        (keep / "digits").write_text("in the way")
        failed = join(server, client="eve", **given)
        assert (failed.status_code, "Cannot write" in failed.json()["detail"]) == (503, True)
        assert answered(server, "eve").status_code == 404
        (keep / "digits").unlink()
        (tmp_path / "away").rename(keep / "digits")
    assert sorted(each.name for each in keep.rglob("*") if each.name == "card.json") == ["card.json"] * 2
    (keep / "digits" / ".eve-half-written").mkdir()
    with started() as server:
        assert answered(server, "dora").json() == before
        assert answered(server, "../Dora").json()["predictions"] == before["predictions"]
        assert server.get("/clients", params={"run": "digits"}, headers=authorized).json()["total"] == 10
        facts = server.get("/clients/dora", params={"run": "digits"}, headers=authorized).json()
        assert (facts["new"], facts["samples"]) == (True, len(data))
        assert join(server, **given).status_code == 422, "the name is taken"
    alone = load_exported(keep / "digits" / "dora").model("dora")
    _, probabilities = alone.predict(data.stored[:5])
    assert probabilities is not None
    shown = torch.tensor([each["probabilities"] for each in before["predictions"]])
    torch.testing.assert_close(shown, probabilities, rtol=1e-4, atol=1e-6)


def test_kept_clients_of_another_run_are_refused(folder: Path, run: LoadedRun, tmp_path: Path) -> None:
    data = run.experiment.data[3].train
    given = Questions(data.stored.numpy(), [""] * len(data), list(map(str, data.targets.tolist())))
    place = keep_newcomer(run, onboard(run, "dora", given), tmp_path / "digits", [])
    [entry] = find_entries([folder / "digits"], keep=tmp_path)
    assert entry.facts()["clients"] == 9
    card = json.loads((place / "card.json").read_text())
    for content, said in (
        ({**card, "run": {**card["run"], "started": "before"}}, "a client of another run. Give --keep another folder"),
        ({**card, "run": {}}, "is damaged: see run"),
        ({}, "is in format None"),
    ):
        (place / "card.json").write_text(json.dumps(content))
        entries = find_entries([folder / "digits"], keep=tmp_path)
        with pytest.raises(PartitaError, match=said):
            Catalogue(entries, 1).need_usable()


def test_exported_models_tell_the_scores_of_their_run(server: Asking) -> None:
    """Beside the floor, local training and the global model."""
    found, same = (server.get("/clients/3", params={"run": name}).json()["scores"] for name in ("exported", "digits"))
    assert found == same
    assert found.keys() == {"personal", "guarded", "global", "local", "floor"}


@pytest.mark.parametrize("tested", [True, False])
def test_a_newcomers_own_folder_is_served(run: LoadedRun, tmp_path: Path, tested: bool) -> None:
    data = run.experiment.data[3].train
    rows = questions_of(data.stored, data.targets)
    newcomer = onboard(run, "dora", rows, test=rows if tested else None)
    write_newcomer(run, newcomer, tmp_path / "dora")
    alone = ["personal", "guarded", "global"] if tested else []
    with client_of(tmp_path / "dora") as server:
        [listed] = server.get("/clients").json()["clients"]
        facts = server.get("/clients/dora").json()
        [folder] = server.get("/runs").json()["runs"]
        assert ask(server, run=None, client="dora").status_code == 200
    assert (facts["new"], facts["samples"], listed["samples"]) == (True, len(data), len(data))
    assert list(facts["scores"]) == alone
    assert facts["scores"] == newcomer.scores
    assert listed["score"] == (newcomer.scores["personal"] if tested else None)
    assert folder["score"] == listed["score"], "and not that of the run"
    assert f"onboarded with {len(data)} samples" in (tmp_path / "dora" / "README.md").read_text(encoding="utf-8")


def test_exported_models_tell_label_counts_if_they_have_them(run: LoadedRun, server: Asking, tmp_path: Path) -> None:
    without = server.get("/clients/5", params={"run": "exported"}).json()
    assert (without["counts"], without["samples"]) == (None, None)
    assert "--label-counts" in without["no_counts"]
    same = server.get("/clients/5", params={"run": "digits"}).json()
    assert same["no_counts"] == ""
    export_models(run, tmp_path / "counted", clients=[5], label_counts=True)
    with client_of(tmp_path) as other:
        found = other.get("/clients/5").json()
        assert other.get("/clients").json()["clients"][0]["samples"] == same["samples"]
    wanted = ("samples", "counts", "labels", "no_counts")
    assert [found[name] for name in wanted] == [same[name] for name in wanted]


def test_without_a_token_nobody_joins(server: Asking) -> None:
    assert join(server).status_code == 403


def test_personal_parts_stay_within_the_budget(run: LoadedRun, tmp_path: Path) -> None:
    """A head of 16 x 10 weights and 10 biases is 680 bytes: three fit into 2,100. The guard could choose no head."""
    export_models(run, tmp_path / "plain", which="before_local")
    with client_of(tmp_path, budget=2100) as server:
        asked = [ask(server, run="plain", client=str(each)) for each in (1, 2, 3, 4, 5, 1)]
        assert [each.status_code for each in asked] == [200] * 6
        counted = dict(line.rsplit(" ", 1) for line in server.get("/metrics").text.splitlines() if line[0] != "#")
        assert float(counted["partita_personal_parts"]) == 3
        assert float(counted["partita_personal_bytes"]) == 3 * 680
        assert float(counted["partita_personal_loads"]) == 6
        assert float(counted['partita_requests_total{path="/predict",status="200"}']) == 6


def test_a_damaged_part_is_told_and_others_answer(folder: Path, tmp_path: Path) -> None:
    place = export_models(load(folder / "digits"), tmp_path / "models", clients=[0, 3, 5])
    (place / "clients" / "3.safetensors").write_bytes(b"nonsense")
    with client_of(place) as server:
        found = ask(server, run="models")
        assert found.status_code == 503
        assert "hash differs" in found.json()["detail"]
        assert ask(server, run="models", client="5").status_code == 200
        (place / "clients" / "5.safetensors").unlink()
        assert ask(server, run="models", client="5").status_code == 200, "what is in memory is not read again"


def test_the_page_loads_nothing_from_elsewhere(server: Asking) -> None:
    page = server.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name in ("page.css", "page.js", "api.js", "charts.js", "inputs.js", "picture.js"):
        text = server.get(f"/page/{name}").text
        assert "http://" not in text.replace("http://www.w3.org", "")
        assert "https://" not in text


def test_nothing_to_serve_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match="No runs and no exported models"):
        find_entries([tmp_path])
    with pytest.raises(PartitaError, match="not a folder"):
        find_entries([tmp_path / "nowhere"])


def test_a_run_that_is_not_done_cannot_be_served_alone(folder: Path) -> None:
    with pytest.raises(PartitaError, match="partita resume"):
        Catalogue(find_entries([folder / "half"]), 1).need_usable()


def test_a_port_in_use_is_one_line() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(PartitaError, match=r"Cannot listen on 127\.0\.0\.1 port"):
        bind("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(PartitaError, match="Cannot listen on no such host"):
        bind("no such host", 0)


@pytest.mark.parametrize("text", ["", "short", "two words of many letters", "ä" * 20])
def test_a_token_must_be_hard_to_guess(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text, encoding="utf-8")
    with pytest.raises(PartitaError, match="at least 16"):
        read_token(tmp_path / "token")
    with pytest.raises(PartitaError, match="Cannot read the token"):
        read_token(tmp_path / "none")
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert read_token(tmp_path / "token") == TOKEN
