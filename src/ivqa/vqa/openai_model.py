"""Earlier scripts import from here; the code is in `ivqa.vqa.served.openai_model`."""

from ivqa.vqa.served.openai_model import OpenAIModel

__all__ = ["OpenAIModel"]
