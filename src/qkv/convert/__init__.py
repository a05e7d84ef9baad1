"""Other people's weights <-> ours."""
