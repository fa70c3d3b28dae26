"""What does a run leave behind? A folder with one database: see docs/runs.md."""
