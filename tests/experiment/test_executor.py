"""An executor is a value, and has a name."""

import os
from pathlib import Path

import pytest

from partita import registry
from partita.errors import PartitaError
from partita.experiment.executor import executor_of
from partita.experiment.executors import _cores, processes as executor
from partita.experiment.executors._cores import cores
from partita.experiment.executors.inline import Inline, inline
from partita.experiment.executors.processes import Processes, processes, workers_of_machine


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (None, Processes()),
        ("inline", Inline()),
        ("processes", Processes()),
        ("processes:4", Processes(4)),
        ("processes:1", Processes(1)),
    ],
)
def test_a_name_means_an_executor(text: str | None, value: object) -> None:
    assert executor_of(text) == value


def test_a_value_is_itself() -> None:
    for value in (inline(), processes(workers=3, start="spawn")):
        assert executor_of(value) is value
    assert processes(workers=3) == Processes(3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("procesess", r"Unknown executor 'procesess'. Did you mean 'processes'\? Known: .*inline.*processes"),
        ("", "Unknown executor ''"),
        ("processes:0", "workers is 0, but must be a whole number of at least 1"),
        ("processes:-2", "workers is -2, but must be a whole number of at least 1"),
        ("processes:two", "workers is two, but must be a whole number of at least 1"),
        ("processes:1.5", "workers is 1.5, but must be a whole number of at least 1"),
        ("processes:", "at least 1"),
        ("inline:2", "'inline:2': inline takes no argument. Write 'inline'"),
        ("elsewhere:8", "Unknown executor 'elsewhere'"),
    ],
)
def test_what_is_no_executor_is_refused(text: str, words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        executor_of(text)


def test_workers_are_forked_or_spawned() -> None:
    with pytest.raises(PartitaError, match="start is 'thread', but must be 'fork' or 'spawn'"):
        executor_of(Processes(2, "thread"))  # type: ignore[arg-type]


def test_every_executor_is_found_by_its_name() -> None:
    assert {"inline", "processes"} <= set(registry.names("executors"))


@pytest.mark.parametrize("told", ["0", "-1", "two", "1.5"])
def test_a_number_of_workers_that_is_none(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTITA_WORKERS", told)
    with pytest.raises(PartitaError, match=r"PARTITA_WORKERS is .*at least 1"):
        workers_of_machine()


def test_by_default_there_is_one_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cores, "_quotas", lambda root: [])
    monkeypatch.delenv("PARTITA_WORKERS")
    assert workers_of_machine() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("PARTITA_WORKERS", "7")
    assert workers_of_machine() == 7


def test_what_the_environment_says_is_not_bound_by_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "cores", lambda: 1)
    monkeypatch.setenv("PARTITA_WORKERS", "5")
    assert workers_of_machine() == 5
    monkeypatch.delenv("PARTITA_WORKERS")
    assert workers_of_machine() == 1


# Quotas of containers.

V1 = "12:pids:/a\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/a\n"
BOTH = "12:pids:/a\n4:cpu:/own\n0::/else\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("groups", "quotas", "count"),
    [
        ("0::/\n", {}, 16),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 16),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "10000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "6400000 100000\n"}, 16),
        ("0::/\n", {"cpu.max": "nonsense\n"}, 16),
        ("0::/outer/inner\n", {"outer/inner/cpu.max": "max 100000\n", "outer/cpu.max": "300000 100000\n"}, 3),
        ("0::/outer/inner\n", {"outer/inner/cpu.max": "400000 100000\n", "outer/cpu.max": "max 100000\n"}, 4),
        ("0::/outer/inner\n", {"outer/inner/cpu.max": "400000 100000\n", "outer/cpu.max": "100000 50000\n"}, 2),
        ("0::/not/mounted/here\n", {"cpu.max": "500000 100000\n"}, 5),
        ("0::/../..\n", {"cpu.max": "500000 100000\n"}, 5),
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "300000\n", "cpu/docker/abc/cpu.cfs_period_us": "100000\n"}, 3),
        (V1, {"cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "1\n", "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "9\n"}, 1),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 3),
        (V1, {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 16),
        (V1, {"cpu/docker/cpu.cfs_quota_us": "700000\n", "cpu/docker/cpu.cfs_period_us": "100000\n"}, 7),
        (BOTH, {"cpu/own/cpu.cfs_quota_us": "200000\n", "cpu/own/cpu.cfs_period_us": "100000\n"}, 2),
        ("nonsense\n", {"cpu.max": "200000 100000\n"}, 16),
        (None, {"cpu.max": "200000 100000\n"}, 16),
    ],
)
def test_a_container_has_no_more_cores_than_its_quota(
    groups: str | None, quotas: dict[str, str], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    if groups is not None:
        write(tmp_path, {"proc/self/cgroup": groups})
    write(tmp_path / "sys/fs/cgroup", quotas)
    assert cores(tmp_path) == count


def test_where_a_process_cannot_be_bound_all_cores_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert cores(tmp_path) == 12
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores(tmp_path) == 1
