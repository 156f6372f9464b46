"""Earlier scripts import from here; the code is in `ivqa.vqa.served.openai_endpoint`."""

from ivqa.vqa.served.openai_endpoint import Endpoint

__all__ = ["Endpoint"]
