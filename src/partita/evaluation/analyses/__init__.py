"""What else is there to know about a finished run? The evaluations of the papers: see docs/evaluation.md."""
