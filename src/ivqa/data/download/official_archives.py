"""Addresses of the official archives of VQA data sets and of COCO."""

from dataclasses import dataclass, replace

_VQA = "https://s3.amazonaws.com/cvmlp/vqa/mscoco/vqa"
_COCO = "http://images.cocodataset.org"
_OKVQA = "https://okvqa.allenai.org/static/data"
_AOKVQA = "https://prior-datasets.s3.us-east-2.amazonaws.com/aokvqa"
_VIZWIZ = "https://vizwiz.cs.colorado.edu/VizWiz_final"
_VISUAL7W = "https://ai.stanford.edu/~yukez/papers/resources"
_VISUAL7W_IMAGES = "http://vision.stanford.edu/yukezhu"
_CLEVR = "https://dl.fbaipublicfiles.com/clevr"
_GQA = "https://downloads.cs.stanford.edu/nlp/data/gqa"


@dataclass(frozen=True)
class Archive:
    """A .zip or .tar.gz file to download.

    Args:
        url: Its address.
        into: Folder under the root to unpack it into.
        holds: A path under the root that exists once the archive is unpacked.
        flat: Whether to leave out the folders in the archive: its files are put into `into`.
        images: Whether it is downloaded with the images only, or without them only; None: both.
    """

    url: str
    into: str
    holds: str
    flat: bool = False
    images: bool | None = None

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
    found = [archive for archive in DATA_SETS[data] if archive.images in (None, images)]
    found += [_CAPTIONS] if captions else []
    if base_url:
        found = [replace(archive, url=f"{base_url}/{archive.name}") for archive in found]
    return found


def _vqa(prefix: str) -> list[Archive]:
    splits = {"Train": "train2014", "Val": "val2014", "Test": "test2015"}
    names = [
        (f"Questions_{part}", f"OpenEnded_mscoco_{split}_questions")
        for part, split in splits.items()
    ]
    names += [
        (f"Annotations_{part}", f"mscoco_{splits[part]}_annotations") for part in ("Train", "Val")
    ]
    found = [
        Archive(f"{_VQA}/{prefix}{name}_mscoco.zip", ".", f"{prefix}{file}.json")
        for name, file in names
    ]
    return found + _images_of_coco(*splits.values())


def _okvqa() -> list[Archive]:
    splits = ("train2014", "val2014")
    names = [f"OpenEnded_mscoco_{split}_questions.json" for split in splits]
    names += [f"mscoco_{split}_annotations.json" for split in splits]
    found = [Archive(f"{_OKVQA}/{name}.zip", ".", name) for name in names]
    return found + _images_of_coco(*splits)


def _images_of_coco(*splits: str) -> list[Archive]:
    return [
        Archive(f"{_COCO}/zips/{split}.zip", "images", f"images/{split}", images=True)
        for split in splits
    ]


def _pictures(url: str, into: str = "images") -> Archive:
    return Archive(url, into, into, flat=True, images=True)


_CAPTIONS = Archive(
    f"{_COCO}/annotations/annotations_trainval2014.zip", ".", "annotations/captions_train2014.json"
)
DATA_SETS: dict[str, list[Archive]] = {
    "vqa_v1": _vqa(""),
    "vqa_v2": _vqa("v2_"),
    "okvqa": _okvqa(),
    "aokvqa": [
        Archive(f"{_AOKVQA}/aokvqa_v1p0.tar.gz", ".", "aokvqa_v1p0_train.json", flat=True),
        *_images_of_coco("train2017", "val2017", "test2017"),
    ],
    "vizwiz": [
        Archive(
            f"{_VIZWIZ}/vqa_data/Annotations.zip",
            "Annotations",
            "Annotations/train.json",
            flat=True,
        ),
        *(
            _pictures(f"{_VIZWIZ}/images/{split}.zip", f"images/{split}")
            for split in ("train", "val", "test")
        ),
    ],
    "visual7w": [
        Archive(f"{_VISUAL7W}/dataset_v7w_telling.zip", ".", "dataset_v7w_telling.json", flat=True),
        _pictures(f"{_VISUAL7W_IMAGES}/visual7w_images.zip"),
    ],
    # The archive with images holds the questions and scenes, too.
    "clevr": [
        Archive(f"{_CLEVR}/CLEVR_v1.0.zip", ".", "CLEVR_v1.0/images/train", images=True),
        Archive(
            f"{_CLEVR}/CLEVR_v1.0_no_images.zip",
            ".",
            "CLEVR_v1.0/questions/CLEVR_train_questions.json",
            images=False,
        ),
    ],
    "gqa": [
        Archive(
            f"{_GQA}/sceneGraphs.zip",
            "sceneGraphs",
            "sceneGraphs/train_sceneGraphs.json",
            flat=True,
        ),
        Archive(f"{_GQA}/questions1.2.zip", "questions", "questions/train_balanced_questions.json"),
        _pictures(f"{_GQA}/images.zip"),
    ],
}
"""The archives of each data set."""
