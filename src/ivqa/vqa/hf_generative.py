"""Earlier scripts import from here; the code is in `ivqa.vqa.transformers.hf_generative`."""

from ivqa.vqa.transformers.hf_generative import HFGenerative

__all__ = ["HFGenerative"]
