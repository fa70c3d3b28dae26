"""Which tools follow a run? Those that draw and compare runs: see docs/runs.md."""
