"""Tests of simulations have a job for each client."""

import pytest

from partita.experiment import jobs


@pytest.fixture(autouse=True)
def a_job_for_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small clients would all be one job, and so one worker's."""
    monkeypatch.setattr(jobs, "SAMPLES_PER_JOB", 1)
