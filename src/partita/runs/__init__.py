"""What does a run leave behind? One directory with one database: see docs/runs.md."""
