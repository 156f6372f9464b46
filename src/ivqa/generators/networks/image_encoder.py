"""f_I: the global image features, concatenated and projected once for each image."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError


class ImageEncoder(nn.Module):
    """W_I f_I + b, where f_I is the concatenation of the named image features.

    The features are concatenated in the order of their sizes; a spatial grid is averaged over its
    positions.

    Raises:
        UserError: `feature_sizes` is empty.
    """

    def __init__(self, *, feature_sizes: Mapping[str, int], size: int) -> None:
        super().__init__()
        self.feature_sizes = {str(name): int(width) for name, width in feature_sizes.items()}
        if not self.feature_sizes:
            raise UserError(
                "this generator looks at images, but no image feature is named; name at least one, "
                "for example concepts, in model.image_features"
            )
        self.projection = nn.Linear(sum(self.feature_sizes.values()), size)

    def forward(self, images: ImageBatch) -> Tensor:
        """Projects the features of M images once, and gathers them for B samples, (B, size).

        Raises:
            UserError: A feature is absent or has another size than this network was built for.
        """
        vectors = concatenated(images, self.feature_sizes)
        return self.projection(vectors)[images.index]  # (M, size) -> (B, size)


def concatenated(images: ImageBatch, feature_sizes: Mapping[str, int]) -> Tensor:
    """The concatenation f_I of the named image features, a grid averaged over its positions.

    It is (M, sum of the sizes) for M images; `feature_sizes` are the last dimensions by name.

    Raises:
        UserError: A feature is absent or has another size.
    """
    parts = []
    for name, width in feature_sizes.items():
        feature = images.feature(name)
        if feature.shape[-1] != width:
            raise UserError(
                f"image feature '{name}' has {feature.shape[-1]} dimensions, but this generator "
                f"was built for {width}; use the features= it was trained with"
            )
        parts.append(feature.mean(dim=1) if feature.dim() == 3 else feature)  # grids: (M, L, d)
    return torch.cat(parts, dim=1)
