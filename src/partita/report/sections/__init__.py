"""What does a report tell? One file for each section."""
