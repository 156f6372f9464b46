"""Addresses of the official archives of VQA data sets and of COCO."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

QUESTIONS_URL = "https://s3.amazonaws.com/cvmlp/vqa/mscoco/vqa"
IMAGES_URL = "http://images.cocodataset.org"
OKVQA_URL = "https://okvqa.allenai.org/static/data"
AOKVQA_URL = "https://prior-datasets.s3.us-east-2.amazonaws.com/aokvqa"
VIZWIZ_URL = "https://vizwiz.cs.colorado.edu/VizWiz_final"
VISUAL7W_URL = "https://ai.stanford.edu/~yukez/papers/resources"
VISUAL7W_IMAGES_URL = "http://vision.stanford.edu/yukezhu"
CLEVR_URL = "https://dl.fbaipublicfiles.com/clevr"
GQA_URL = "https://downloads.cs.stanford.edu/nlp/data/gqa"


@dataclass(frozen=True)
class Archive:
    """A .zip or .tar.gz file to download.

    Args:
        url: Its address.
        into: Folder under the root to unpack it into.
        holds: A path under the root that exists once the archive is unpacked.
        flat: Whether to leave out the folders in the archive: its files are put into `into`.
    """

    url: str
    into: str
    holds: str
    flat: bool = False

    @property
    def name(self) -> str:
        """File name of the archive."""
        return self.url.rsplit("/", 1)[1]


def archives(
    data: str, images: bool = False, captions: bool = False, base_url: str | None = None
) -> list[Archive]:
    """Lists the archives of a data set in the order of downloading.

    Args:
        data: A name in `DATA_SETS`.
        images: Whether to include the images.
        captions: Whether to include the captions of COCO 2014.
        base_url: A mirror that holds all archives in one folder, in place of the official servers.

    Raises:
        ValueError: There is no such data set, or it has no captions.

    Example:
        >>> [archive.name for archive in archives("vqa_v1")][:2]
        ['Questions_Train_mscoco.zip', 'Questions_Val_mscoco.zip']
    """
    if data not in DATA_SETS:
        known = ", ".join(DATA_SETS)
        raise ValueError(f"no data set '{data}' to download; choose one of {known}")
    if captions and data not in ("vqa_v1", "vqa_v2", "okvqa"):
        raise ValueError(f"{data} has no captions; leave out --captions")
    found = DATA_SETS[data](base_url, images)
    if captions:
        url = f"{base_url or IMAGES_URL + '/annotations'}/annotations_trainval2014.zip"
        found.append(Archive(url, ".", "annotations/captions_train2014.json"))
    return found


def _vqa(base_url: str | None, images: bool, prefix: str) -> list[Archive]:
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
    return found + _coco(base_url, images, *splits.values())


def _okvqa(base_url: str | None, images: bool) -> list[Archive]:
    splits = ("train2014", "val2014")
    names = [f"OpenEnded_mscoco_{split}_questions.json" for split in splits]
    names += [f"mscoco_{split}_annotations.json" for split in splits]
    found = [Archive(f"{base_url or OKVQA_URL}/{name}.zip", ".", name) for name in names]
    return found + _coco(base_url, images, *splits)


def _aokvqa(base_url: str | None, images: bool) -> list[Archive]:
    url = f"{base_url or AOKVQA_URL}/aokvqa_v1p0.tar.gz"
    found = [Archive(url, ".", "aokvqa_v1p0_train.json", flat=True)]
    return found + _coco(base_url, images, "train2017", "val2017", "test2017")


def _vizwiz(base_url: str | None, images: bool) -> list[Archive]:
    url = f"{base_url or VIZWIZ_URL + '/vqa_data'}/Annotations.zip"
    found = [Archive(url, "Annotations", "Annotations/train.json", flat=True)]
    for split in ("train", "val", "test") if images else ():
        url = f"{base_url or VIZWIZ_URL + '/images'}/{split}.zip"
        found.append(Archive(url, f"images/{split}", f"images/{split}", flat=True))
    return found


def _visual7w(base_url: str | None, images: bool) -> list[Archive]:
    name = "dataset_v7w_telling"
    found = [Archive(f"{base_url or VISUAL7W_URL}/{name}.zip", ".", f"{name}.json", flat=True)]
    if images:
        url = f"{base_url or VISUAL7W_IMAGES_URL}/visual7w_images.zip"
        found.append(Archive(url, "images", "images", flat=True))
    return found


def _clevr(base_url: str | None, images: bool) -> list[Archive]:
    # The archive with images holds the questions and scenes, too; both have the folder CLEVR_v1.0.
    name = "CLEVR_v1.0.zip" if images else "CLEVR_v1.0_no_images.zip"
    holds = "images/train" if images else "questions/CLEVR_train_questions.json"
    return [Archive(f"{base_url or CLEVR_URL}/{name}", ".", f"CLEVR_v1.0/{holds}")]


def _gqa(base_url: str | None, images: bool) -> list[Archive]:
    url = base_url or GQA_URL
    found = [
        Archive(
            f"{url}/sceneGraphs.zip", "sceneGraphs", "sceneGraphs/train_sceneGraphs.json", True
        ),
        Archive(f"{url}/questions1.2.zip", "questions", "questions/train_balanced_questions.json"),
    ]
    if images:
        found.append(Archive(f"{url}/images.zip", "images", "images", flat=True))
    return found


def _coco(base_url: str | None, images: bool, *splits: str) -> list[Archive]:
    zips = base_url or f"{IMAGES_URL}/zips"
    wanted = splits if images else ()
    return [Archive(f"{zips}/{split}.zip", "images", f"images/{split}") for split in wanted]


# The archives of each data set, from the address of a mirror (or None) and whether to add images.
DATA_SETS: dict[str, Callable[[str | None, bool], list[Archive]]] = {
    "vqa_v1": partial(_vqa, prefix=""),
    "vqa_v2": partial(_vqa, prefix="v2_"),
    "okvqa": _okvqa,
    "aokvqa": _aokvqa,
    "vizwiz": _vizwiz,
    "visual7w": _visual7w,
    "clevr": _clevr,
    "gqa": _gqa,
}
