"""What does a reader see of runs? One HTML file that needs nothing else: see docs/report.md."""

REPORT = "report.html"
"""The name of a report in the folder of its run."""
