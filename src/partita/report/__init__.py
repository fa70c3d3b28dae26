"""What does a reader see of runs? One HTML file that needs nothing else: see docs/report.md."""
