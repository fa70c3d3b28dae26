"""How good is a model, and for whom? Scores, comparisons, the guard and the analyses."""
