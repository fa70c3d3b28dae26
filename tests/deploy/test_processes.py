"""A federation on one machine: a process that dies is noticed at once, and started again a few times."""

from pathlib import Path

import pytest

from partita.deploy.processes import LOG, TRIES, Part, _how, ending, started_again
from partita.errors import PartitaError
from watching import nothing_left, wait_for


def versions(folder: Path) -> list[str]:
    """What a command that ends at once has said, each time."""
    return (folder / LOG).read_text(encoding="utf-8").splitlines()


def test_what_dies_is_started_again_a_few_times(tmp_path: Path) -> None:
    """Another part that lives stays as it is."""
    told = list[str]()
    part, other = Part("The site anna", tmp_path, ["--version"]), Part("The site ben", tmp_path / "ben", ["node"])
    with nothing_left(), ending([part, other]):
        part.start()
        with started_again([part, other], told.append):
            assert wait_for(lambda: len(told) == TRIES + 1)
    ended = f"The site anna has ended (code 0; see {tmp_path / LOG})"
    assert told[:-1] == [f"{ended} and is started again. The round continues."] * TRIES
    assert told[-1] == f"{ended} and is not started again: that was tried {TRIES} times."
    assert len(versions(tmp_path)) == TRIES + 1
    assert _how(-9) == "killed by SIGKILL"


def test_what_is_done_before_each_start(tmp_path: Path) -> None:
    """It may fail, and be possible only later; the next attempt is made then."""
    told, starts, looks = list[str](), [True, False, True], [False, True, True]

    def prepare() -> None:
        if not starts.pop(0):
            raise PartitaError("There is no SuperLink.")

    part = Part("The SuperNode of anna", tmp_path, ["--version"], prepare, lambda: looks.pop(0) if looks else False)
    with nothing_left(), ending([part]):
        part.start()
        with started_again([part], told.append):
            assert wait_for(lambda: len(versions(tmp_path)) == 2)
    assert [each.partition(" has ended")[0] for each in told] == [
        part.name,
        f"{part.name} could not be started again: There is no SuperLink.",
        part.name,
    ]


def test_what_does_not_start(tmp_path: Path) -> None:
    part = Part("The site anna", tmp_path, ["node", "run", "missing.toml"])
    with nothing_left(), ending([part]):
        part.start()
        with pytest.raises(PartitaError, match=r"The site anna did not start: Error: Cannot read missing.toml"):
            part.wait(lambda: False)
