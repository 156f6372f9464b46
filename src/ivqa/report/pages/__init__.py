"""HTML pages of beliefs, noise, questions and studies."""
