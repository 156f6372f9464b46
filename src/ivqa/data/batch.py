"""Earlier scripts import from here; the code is in `ivqa.data.batches.batch`."""

from ivqa.data.batches.batch import ImageBatch, VQABatch

__all__ = ["ImageBatch", "VQABatch"]
