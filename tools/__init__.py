"""Tools of the project itself, which no wheel holds: released weights, results page, house."""
