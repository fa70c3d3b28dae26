"""What happens in a run? Experiments, their settings, rounds, jobs and the executors that carry them out."""
