"""What do clients learn from? Pools of samples, their division among clients, sources and splits."""
