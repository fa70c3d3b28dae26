"""What is a method? Selectors, phases, optimizers and the three functions that interpret an algorithm."""
