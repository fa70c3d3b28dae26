"""What happens in a run? Experiments, rounds, jobs and the executors that carry them out."""
