"""How fast is it? Workloads by name, each beside a hand-written loop or another way of doing the same."""
