"""How does a finished run become something to use? Its models are loaded, exported, asked, and given to newcomers."""
