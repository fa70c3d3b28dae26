"""How many cores may this process use? Those in its CPU affinity, limited by its container's quota."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

ROOT = Path("/")


def cores(root: Path = ROOT) -> int:
    """The number of cores, at least 1. A quota is rounded up: half a core counts as one."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([bound, *map(math.ceil, _quotas(root))]))


def _quotas(root: Path) -> Iterator[float]:
    """The quotas of the control groups of this process, and of the groups that contain them."""
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if not controllers:
                for folder in _groups(root / "sys/fs/cgroup", group):
                    yield from _quota(folder, "cpu.max")
            elif "cpu" in controllers.split(","):
                for mount in ("cpu", controllers):
                    for folder in _groups(root / "sys/fs/cgroup" / mount, group):
                        yield from _quota(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us")


def _groups(mount: Path, group: str) -> Iterator[Path]:
    """The folder of a group and those around it. In a container only its own may be there, as the mount itself."""
    path = PurePosixPath(group).relative_to("/")
    yield from (mount / each for each in (path, *path.parents))


def _quota(folder: Path, *files: str) -> Iterator[float]:
    """Microseconds of computing in a period, over those of the period: cores. Without a quota there is none."""
    with suppress(OSError, ValueError):
        limit, period = " ".join((folder / name).read_text() for name in files).split()
        if limit != "max" and int(limit) > 0:
            yield int(limit) / int(period)
