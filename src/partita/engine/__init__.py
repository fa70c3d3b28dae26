"""Who carries out a phase? A runner supplies one function, `run_phase`; all runners give the same tensors."""
