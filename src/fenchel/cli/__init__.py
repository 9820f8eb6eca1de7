"""How is it run without code? The command ``fenchel``."""
