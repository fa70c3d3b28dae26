"""How is a chart drawn? As inline SVG, by pure functions, one file for each kind."""
