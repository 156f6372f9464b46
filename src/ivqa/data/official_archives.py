"""Addresses of the official VQA and COCO archives."""

from dataclasses import dataclass

QUESTIONS_URL = "https://s3.amazonaws.com/cvmlp/vqa/mscoco/vqa"
IMAGES_URL = "http://images.cocodataset.org"


@dataclass(frozen=True)
class Archive:
    """A zip file to download.

    Args:
        url: Its address.
        into: Folder under the root to unpack it into.
        holds: A path under the root that exists once the archive is unpacked.
    """

    url: str
    into: str
    holds: str

    @property
    def name(self) -> str:
        """File name of the archive."""
        return self.url.rsplit("/", 1)[1]


def archives(
    data: str, images: bool = False, captions: bool = False, base_url: str | None = None
) -> list[Archive]:
    """Lists the archives of a data set.

    Args:
        data: "vqa_v1" or "vqa_v2".
        images: Whether to include the images of COCO 2014 and 2015.
        captions: Whether to include the captions of COCO 2014.
        base_url: A mirror that holds all archives in one folder, in place of the official servers.

    Returns:
        The archives in the order of downloading.

    Raises:
        ValueError: There is no such data set.

    Example:
        >>> [archive.name for archive in archives("vqa_v1")][:2]
        ['Questions_Train_mscoco.zip', 'Questions_Val_mscoco.zip']
    """
    if data not in ("vqa_v1", "vqa_v2"):
        raise ValueError(f"no data set '{data}' to download; choose vqa_v1 or vqa_v2")
    prefix = "v2_" if data == "vqa_v2" else ""
    questions = base_url or QUESTIONS_URL
    splits = {"Train": "train2014", "Val": "val2014", "Test": "test2015"}
    found = [
        Archive(
            f"{questions}/{prefix}Questions_{part}_mscoco.zip",
            ".",
            f"{prefix}OpenEnded_mscoco_{split}_questions.json",
        )
        for part, split in splits.items()
    ]
    found += [
        Archive(
            f"{questions}/{prefix}Annotations_{part}_mscoco.zip",
            ".",
            f"{prefix}mscoco_{splits[part]}_annotations.json",
        )
        for part in ("Train", "Val")
    ]
    if captions:
        url = f"{base_url or IMAGES_URL + '/annotations'}/annotations_trainval2014.zip"
        found.append(Archive(url, ".", "annotations/captions_train2014.json"))
    if images:
        zips = base_url or f"{IMAGES_URL}/zips"
        found += [
            Archive(f"{zips}/{split}.zip", "images", f"images/{split}") for split in splits.values()
        ]
    return found
