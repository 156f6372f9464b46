"""Images as data URLs, for models behind an endpoint."""

import base64
import io
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

from ivqa.data.batches.batch import PixelSource
from ivqa.data.images import ImageFiles
from ivqa.data.rgb import is_plain
from ivqa.store.digests import bytes_digest
from ivqa.store.files import read_bytes

_MIME_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png"}
_JPEG_QUALITY = 95  # of JPEG files that must be encoded again


@dataclass(frozen=True)
class EncodedImage:
    """An image file in memory: its bytes, and its type, such as "image/png"."""

    content: bytes
    mime_type: str

    @cached_property
    def digest(self) -> str:
        """The digest of the bytes."""
        return bytes_digest(self.content)

    @cached_property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.mime_type};base64,{base64.b64encode(self.content).decode()}"


def encode_image(source: PixelSource, image_id: int, max_side: int) -> EncodedImage:
    """Encodes an image for a request, with at most `max_side` pixels a side.

    The bytes of a JPEG or PNG file are sent as they are where every reader sees the same picture
    (`is_plain`) of at most `max_side` pixels a side. Any other image is converted as `to_rgb` says,
    reduced to `max_side` and encoded again: a JPEG file as JPEG, everything else, noise included,
    without loss as PNG.

    Raises:
        UserError: The file is missing or cannot be read; the message names it.
    """
    picture = source.open(image_id)  # upright; also refuses files that are cut off
    kind = "PNG"
    if isinstance(source, ImageFiles):
        content = read_bytes(source.path(image_id))
        with Image.open(io.BytesIO(content)) as file:
            plain = file.format in _MIME_TYPES and is_plain(file)
            if plain and max(file.size) <= max_side:
                return EncodedImage(content, _MIME_TYPES[str(file.format)])
            # MPO is how many cameras store JPEG, with a second picture in the file.
            kind = "JPEG" if file.format in ("JPEG", "MPO") else "PNG"
    if max(picture.size) > max_side:
        picture.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    # The options of the other format are ignored. subsampling=0 keeps the colours of all pixels.
    picture.save(buffer, kind, quality=_JPEG_QUALITY, subsampling=0)
    return EncodedImage(buffer.getvalue(), _MIME_TYPES[kind])
