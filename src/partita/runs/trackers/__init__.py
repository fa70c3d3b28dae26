"""Who else is told how a run goes? Tools that draw and compare runs: see docs/runs.md."""
