"""A federation on one machine: a SuperLink that dies is noticed at once, and started again."""

from pathlib import Path

from partita.deploy import loopback
from watching import wait_for


def test_a_superlink_that_dies_is_started_again(tmp_path: Path) -> None:
    """Here by a command that ends at once, each time."""
    command, told = ["--version"], list[str]()
    with (
        loopback._process(command, tmp_path) as process,
        loopback._started_again(process, command, tmp_path, told.append),
    ):
        assert wait_for(lambda: len(told) >= 2)
    assert told[0] == (
        f"The SuperLink has ended (code 0; see {tmp_path / loopback.LOG}) and is started again. The round continues."
    )
    versions = (tmp_path / loopback.LOG).read_text(encoding="utf-8").splitlines()
    assert 2 <= len(versions) <= len(told) + 1
    assert loopback._how(-9) == "killed by SIGKILL"
