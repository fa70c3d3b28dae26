"""How does an algorithm run in a real federation? A server and sites exchange messages; personal parts stay."""

DEPLOYMENT = "federation.json"
"""The file in the folder of a run that says that a federation makes it, and how."""
