"""How are models served? One process answers for all clients of one or several runs: see docs/serving.md."""
