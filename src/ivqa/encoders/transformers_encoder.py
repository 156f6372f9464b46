"""Sentence vectors of any Transformers model: the mean of its last hidden states."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from ivqa.encoders.encoder import TrainedEncoder, unit_rows
from ivqa.errors import reason_of
from ivqa.hub import check_revision, note_commit
from ivqa.ranges import Cache, Count, Weights
from ivqa.store.digests import content_digest
from ivqa.store.files import FileError
from ivqa.store.weights import check_finite


class TransformersEncoder(TrainedEncoder):
    """Mean of the last hidden states of a Transformers model over the tokens of a text.

    Args:
        path: A local folder or a hub id.
        batch_size: Texts that are encoded together.
        max_length: Tokens; longer texts are truncated.
        cache: Folder for encodings; None stores none.
        revision: The branch, tag or commit of a hub id; None for "main".

    Raises:
        UserError: The model cannot be loaded, or a weight is not finite.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        path: Weights,
        batch_size: Count = 64,
        max_length: Count = 64,
        cache: Cache | None = None,
        revision: str | None = None,
    ) -> None:
        from transformers import AutoModel, AutoTokenizer

        super().__init__(cache)
        check_revision(path, revision)
        try:
            self._model: Any = AutoModel.from_pretrained(path, revision=revision or "main").eval()
            commit = note_commit(path, revision)
            at = "main" if Path(path).is_dir() or commit is None else commit
            self._tokenizer: Any = AutoTokenizer.from_pretrained(path, revision=at)
        except Exception as error:  # Transformers raises errors of many types
            kind = "folder" if Path(path).exists() else "hub id (is the network there?)"
            reason = reason_of(error)
            raise FileError(
                f"cannot load a sentence encoder from the {kind} '{path}': {reason}; download it "
                "where there is a network and pass encoder.path=FOLDER"
            ) from error
        check_finite(self._model.state_dict(), path)
        self.path, self.batch_size, self.max_length = path, batch_size, max_length
        self.content = content_digest(path)
        if revision is not None:  # a public attribute is part of the names of cached encodings
            self.revision = revision

    @torch.no_grad()
    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        # Texts of similar length are encoded together, which avoids padding.
        order = np.argsort([len(text) for text in texts], kind="stable")
        result: NDArray[np.float32] = np.zeros((len(texts), self._model.config.hidden_size), "f4")
        for start in range(0, len(texts), self.batch_size):
            rows = order[start : start + self.batch_size]
            words = self._tokenizer(
                [texts[row] for row in rows],
                padding=True,
                truncation=True,
                max_length=self.max_length,
                return_tensors="pt",
            )
            hidden = self._model(**words).last_hidden_state  # (B, T, d)
            mask = words["attention_mask"][:, :, None]  # (B, T, 1), 1 for tokens of the text
            mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp_min(1)  # (B, d)
            result[rows] = mean.float().numpy()
        return unit_rows(result)
