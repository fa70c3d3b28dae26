"""An algorithm outside of the package."""
