"""Features of networks that were trained elsewhere."""
