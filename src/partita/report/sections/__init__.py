"""What does a report consist of? One file for each section, with the function of its name and its `PLACE`."""
