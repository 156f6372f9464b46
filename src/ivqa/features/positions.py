"""What features= configures, and the numbers of positions of features before they are computed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ivqa.data.batches.encoded_split import ImageFeatures
from ivqa.data.dataset import VQADataset


class FeatureComponent(ABC):
    """What features= configures: it computes the features of splits and stores them."""

    @abstractmethod
    def build(self, dataset: VQADataset, splits: Sequence[str], root: Path) -> ImageFeatures:
        """Computes the features of splits, unless they are stored already.

        Args:
            dataset: The data. A network that is trained first reads its splits train and val.
            splits: Stages ("train", "val", "test") or names of splits.
            root: Folder of all feature stores.

        Returns:
            The store of the features, in a folder of its own under `root`.

        Raises:
            UserError: The images or the weights cannot be read, a split has no images, or the disk
                has no room.
        """

    def build_for_others(
        self, own: ImageFeatures, dataset: VQADataset, splits: Sequence[str], root: Path
    ) -> ImageFeatures:
        """Computes the features of other data with the network of `own`, the features of a command.

        A model that is trained on other data can then read the images of the command. Unless a
        network is trained on the data, it is the same for all data, and this is `build`.
        """
        return self.build(dataset, splits, root)

    @abstractmethod
    def cache_key(self, dataset: VQADataset) -> str:
        """The digest of everything that determines the features of a data set."""

    def places(self) -> Mapping[str, int | None] | None:
        """The number of positions of each feature, by name; None for one vector per image.

        None for a component whose features are not known in advance.
        """
        return None


def offered_places(component: object) -> Mapping[str, int | None] | None:
    """The `places` of what features= configures, which need not be a `FeatureComponent`.

    Example:
        >>> from ivqa.features import ConceptFeatures
        >>> offered_places(ConceptFeatures(image_size=96))
        {'grid': 144, 'pooled': None, 'concepts': None}
    """
    places: Callable[[], Mapping[str, int | None] | None] | None
    places = getattr(component, "places", None)
    return None if places is None else places()
