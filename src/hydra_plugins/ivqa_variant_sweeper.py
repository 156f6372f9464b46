"""hydra/sweeper=variants: Hydra's sweeper, where one value may be several rows of a table.

Hydra combines all values of all keys. [ROB] measures one model of five with two backbones, which is
no such combination. Hydra imports this module with every command, so it imports nothing of size.
"""

from collections.abc import Mapping, Sequence

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.types import Override
from typing_extensions import override


class VariantSweeper(BasicSweeper):
    """Runs the jobs of Hydra's sweeper, and some of them in several variants.

    Args:
        variants: Overrides of each variant, by the name of its row:
            {HAV: [model=hiecoatt], HAR: [model=hiecoatt, features=efficientnet_lite]}. A job with
            the first override of a variant is run once for each variant that begins with it; the
            other overrides replace those of the job with the same key.
        max_batch_size: Number of jobs that the launcher gets at a time; None for all.
        params: Values of the sweep by key.
    """

    def __init__(
        self,
        variants: Mapping[str, Sequence[str]] | None = None,
        max_batch_size: int | None = None,
        params: dict[str, str] | None = None,
    ) -> None:
        super().__init__(max_batch_size, params)
        self.variants = [list(items) for items in (variants or {}).values()]

    @override
    def split_arguments(  # type: ignore[override]  # Hydra's is static, and called on the instance
        self, overrides: list[Override], max_batch_size: int | None
    ) -> list[list[list[str]]]:
        (jobs,) = BasicSweeper.split_arguments(overrides, None)
        every = [one for job in jobs for one in self._variants_of(job)]
        return list(self.split_overrides_to_chunks(every, max_batch_size))

    def _variants_of(self, job: list[str]) -> list[list[str]]:
        found = []
        for first, *changes in self.variants:
            if first in job:
                keys = {_key(item) for item in changes}
                found.append([item for item in job if _key(item) not in keys] + changes)
        return found or [job]


def _key(item: str) -> str:
    return item.partition("=")[0]
