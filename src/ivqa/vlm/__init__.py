"""Vision-language models of transformers: loading, prompts with pictures, and what is written."""
