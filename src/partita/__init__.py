"""Partita: personalized federated learning by partial-model personalization."""
