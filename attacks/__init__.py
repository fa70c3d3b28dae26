"""What was tried against Partita, and what held? Attacks as a command: python -m attacks."""
