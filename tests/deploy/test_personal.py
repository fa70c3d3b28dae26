"""The personal store of a site: what is accepted and pending, damage, and a key."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
import torch

from bits import digest
from partita.deploy.personal import DATABASE, PersonalStore
from partita.errors import PartitaError
from partita.tensors import Tensors


def own(value: float) -> Tensors:
    return {"head.weight": torch.full((3, 2), value), "flayer/accuracy": torch.tensor(value)}


def test_what_was_not_accepted_is_rolled_back(tmp_path: Path) -> None:
    with PersonalStore(tmp_path / "site") as store:
        assert store.own("p", 0) == {}
        store.keep("p", 1, own(1))
        assert digest(store.own("p", 1)) == digest(own(1)), "pending, for evaluation"
        store.settle("p", 0)
        with pytest.raises(PartitaError, match="from round 1 of this site, which holds no round"):
            store.own("p", 1)
        store.keep("p", 1, own(2))
        store.settle("p", 1)
        store.keep("p", 4, own(3))
        store.keep("p", 4, own(4))
    with PersonalStore(tmp_path / "site") as store:
        store.settle("p", 1)
        assert digest(store.own("p", 1)) == digest(own(2))
        with pytest.raises(PartitaError, match=r"from round 0 of this site, which holds round 1 \(accepted\)"):
            store.settle("p", 0)
        with pytest.raises(PartitaError, match="continues from round 7"):
            store.settle("p", 7)
        with pytest.raises(PartitaError, match="accepted already"):
            store.keep("p", 1, own(5))
        assert store.own("another", 0) == {}


def test_nobody_else_may_read_it_and_one_process_works_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    with PersonalStore(folder) as store:
        store.keep("p", 1, own(1))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob(f"{DATABASE}*")} == {0o600}
        with pytest.raises(PartitaError, match="Another process is using"):
            PersonalStore(folder)


def test_damage_is_noticed(tmp_path: Path) -> None:
    with PersonalStore(tmp_path) as store:
        store.keep("p", 1, own(1))
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute("UPDATE parts SET bytes = zeroblob(length(bytes))")
    connection.commit()
    connection.close()
    with (
        PersonalStore(tmp_path) as store,
        pytest.raises(PartitaError, match="damaged: the state of round 1 does not match"),
    ):
        store.own("p", 1)


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("length", [8192, 5000, 4096, 150])
def test_a_truncated_file_is_noticed(length: int, write: bool, tmp_path: Path) -> None:
    """Wherever it ends, the message names the file of the site, and not that of a run."""
    with PersonalStore(tmp_path) as store:
        store.keep("p", 1, {"head.weight": torch.ones(5000)})
    path = tmp_path / DATABASE
    path.write_bytes(path.read_bytes()[:length])
    told = rf"The personal state in .* is damaged: .*\. Restore {DATABASE} from a copy"
    with pytest.raises(PartitaError, match=told), PersonalStore(tmp_path, write=write) as store:
        store.own("p", 1)


def test_with_a_key_nothing_can_be_read_without_it(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    key, other = tmp_path / "key", tmp_path / "other"
    key.write_bytes(bytes(range(32)))
    other.write_bytes(bytes(32))
    secret = own(0.123)
    with PersonalStore(tmp_path / "site", key) as store:
        store.keep("p", 1, secret)
        assert digest(store.own("p", 1)) == digest(secret)
    held = b"".join(path.read_bytes() for path in (tmp_path / "site").glob(f"{DATABASE}*"))
    assert secret["head.weight"].numpy().tobytes() not in held
    for wrong in (other, None):
        with PersonalStore(tmp_path / "site", wrong) as store, pytest.raises(PartitaError, match="is damaged"):
            store.own("p", 1)
    other.write_bytes(b"short")
    with pytest.raises(PartitaError, match=r"has 5 bytes. Make one with: openssl rand"):
        PersonalStore(tmp_path / "third", other)


def test_states_of_another_format_are_refused(tmp_path: Path) -> None:
    with PersonalStore(tmp_path) as store:
        store.keep("p", 1, own(1))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("PRAGMA user_version = 0")
    for write in (True, False):
        with pytest.raises(PartitaError, match="has the format 0, and this version of Partita reads 2"):
            PersonalStore(tmp_path, write=write)


@pytest.mark.parametrize("swap", ["parts", "states"])
def test_with_a_key_no_part_stands_for_another(tmp_path: Path, swap: str) -> None:
    """Two parts of a state, or a part of the state that was there before, of the same plan and round."""
    pytest.importorskip("cryptography")
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    select = "SELECT bytes, checksum FROM parts WHERE part = 2"
    with PersonalStore(tmp_path, key) as store:
        store.keep("p", 1, {"a": torch.ones(4), "b": torch.zeros(4)})
        with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
            [before] = connection.execute(select).fetchall()
        if swap == "states":
            store.keep("p", 1, {"a": torch.ones(4), "b": torch.ones(4)})
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        where = 1 if swap == "parts" else 2
        connection.execute(f"UPDATE parts SET bytes = ?, checksum = ? WHERE part = {where}", before)
    with PersonalStore(tmp_path, key) as store, pytest.raises(PartitaError, match="the key does not open a state"):
        store.own("p", 1)
