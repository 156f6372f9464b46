"""Responses of an endpoint, kept on disk so that none is paid for twice."""

import json
from pathlib import Path
from typing import Any

from ivqa.store.files import write_bytes
from ivqa.vqa.served.openai_replies import parse_response


class ResponseCache:
    """One JSON file for each request, named by the digest of everything that was sent.

    Files are renamed into place, so any number of threads, processes and machines can share the
    folder, also on a network file system, and a killed process leaves no partial response.

    Args:
        folder: The folder; it is created with the first response.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> dict[str, Any] | None:
        """Returns the stored response to a request.

        Args:
            key: The digest of the request.

        Returns:
            The response, None if there is none or its file is damaged.
        """
        try:
            record = parse_response(self._path(key).read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        response = record.get("response") if isinstance(record, dict) else None
        return response if isinstance(response, dict) else None

    def put(self, key: str, request: dict[str, Any], response: dict[str, Any]) -> None:
        """Stores the response to a request.

        Args:
            key: The digest of the request.
            request: What was sent, with digests in place of images, for people who read the file.
            response: The body of the response.
        """
        record = {"request": request, "response": response}
        write_bytes(self._path(key), json.dumps(record, ensure_ascii=False).encode())

    def _path(self, key: str) -> Path:
        # Folders of a million files are slow to list on some file systems.
        return self.folder / key[:2] / f"{key}.json"
