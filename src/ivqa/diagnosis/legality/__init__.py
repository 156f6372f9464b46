"""The legality model: which questions people would ask."""
