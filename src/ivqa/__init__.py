"""Diagnosis of visual question answering (VQA) models: their beliefs and their robustness.

The modules directly in this package are what every other part builds on:

- `errors`: the base class of errors that the user can fix.
- `files`: atomic writes, checked reads, digests and locks.
- `arrays`, `weights`: checked reads of NumPy arrays and PyTorch weights.
- `integrity`: manifests that reveal damaged files.
- `code_digest`, `identity`: keys of stored results, computed from code and settings.
- `ranges`: argument types with their allowed ranges.
- `device`: what the processor supports.
- `trained`: the base class of trained modules.
"""

__version__ = "0.1.0"
