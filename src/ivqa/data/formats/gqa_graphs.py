"""GQA's scene graphs: the objects of a photograph, their attributes and relations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ivqa.data.formats.published import Record, records
from ivqa.data.validation import Problems, shown


@dataclass(frozen=True)
class GraphObject:
    """An object in a photograph.

    Args:
        relations: (relation, number of the other object) of each outgoing relation.
        center: Centre of its box as shares of the image's width and height; None without a box.
    """

    name: str
    attributes: frozenset[str]
    relations: tuple[tuple[str, str], ...]
    center: tuple[float, float] | None


@dataclass(frozen=True)
class SceneGraph:
    """The objects of a photograph by their numbers.

    Args:
        objects: The objects.
        scene: What the whole photograph is: location and weather, where they are known.
    """

    objects: Mapping[str, GraphObject]
    scene: Mapping[str, str]

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "SceneGraph":
        """Reads the value of an image in SPLIT_sceneGraphs.json.

        Raises:
            ValueError: The record lacks a field; the message names the object and the field.
        """
        listed = record.get("objects")
        if not isinstance(listed, dict):
            raise ValueError(f"objects must be an object, not {shown(listed)}")
        width, height = record.get("width"), record.get("height")
        objects = {}
        for number, one in listed.items():
            try:
                center = None
                if width and height:
                    center = (one["x"] + one["w"] / 2) / width, (one["y"] + one["h"] / 2) / height
                relations = tuple((link["name"], str(link["object"])) for link in one["relations"])
                attributes = frozenset(one["attributes"])
                objects[number] = GraphObject(one["name"], attributes, relations, center)
            except (KeyError, TypeError) as error:
                raise ValueError(f"object {number} is incomplete ({error!r})") from None
            for text in (one["name"], *attributes, *(name for name, _ in relations)):
                if not isinstance(text, str):
                    raise ValueError(
                        f"object {number}: names of objects, attributes and relations must be "
                        f"texts, not {shown(text)}"
                    )
        for number, thing in objects.items():
            for name, other in thing.relations:
                if other not in objects:
                    raise ValueError(
                        f"object {number}: relations: {shown(name)} leads to object {other}, which "
                        "is not there"
                    )
        known = {key: record[key] for key in ("location", "weather") if record.get(key)}
        for key, text in known.items():
            if not isinstance(text, str):
                raise ValueError(f"{key} must be text, not {shown(text)}")
        return cls(objects, known)


def read_graphs(path: Path, problems: Problems) -> Iterator[tuple[str, SceneGraph]]:
    """Reads SPLIT_sceneGraphs.json: image ids as published, and scene graphs, one by one.

    Raises:
        DataError: The file cannot be read.
    """
    record: Record
    for image_id, record in records(path, None, problems):
        try:
            yield image_id, SceneGraph.from_json(record)
        except ValueError as error:
            problems.add(path, f"image {image_id}", "", f"{error}; download the file again")
