"""What is measured? One file for each workload, with a function `workload`."""
