"""f_I: the global image features, concatenated and projected once an image."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch
from ivqa.errors import UserError


class ImageEncoder(nn.Module):
    """W_I f_I + b with f_I the concatenation of the named features.

    feature_sizes: last dimension of each feature, in the order of concatenation; a spatial grid
    is averaged over its positions. size: of the projection.
    Raises UserError where no feature is named.
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
        """Projections (B, size), one a sample; computed once for each of the M images.

        Raises UserError where a feature is absent or has another size than the one trained with.
        """
        parts = [self._global(images, name, width) for name, width in self.feature_sizes.items()]
        return self.projection(torch.cat(parts, dim=1))[images.index]

    def _global(self, images: ImageBatch, name: str, width: int) -> Tensor:
        feature = images.feature(name)
        if feature.shape[-1] != width:
            raise UserError(
                f"image feature '{name}' has {feature.shape[-1]} dimensions, but this generator "
                f"was built for {width}; use the features= it was trained with"
            )
        return feature.mean(dim=1) if feature.dim() == 3 else feature
