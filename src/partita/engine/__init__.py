"""How is a phase computed? An engine supplies one function, `run_phase`; all engines give the same tensors."""
