"""What can be found out about a run? One file for each analysis: see docs/evaluation.md."""
