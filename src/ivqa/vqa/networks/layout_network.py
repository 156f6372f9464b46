"""Learning to lay out modules: by cloning experts, and by search (Hu et al. 2017).

Cloning minimises the answer loss under the experts' layouts l, and -log p(l | q).
The search minimises E_p[loss(l)] - lambda H(p) by REINFORCE with a baseline b:

gradient of the policy: (loss(l) - b) grad log p(l | q),  b <- decay b + (1 - decay) mean loss
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from ivqa.data import VQASplit
from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.ranges import Count, CountOrZero, NonNegative, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import OneFeatureNetwork, TrainingOutput
from ivqa.vqa.networks.layout_policy import LayoutPolicy, Plan
from ivqa.vqa.networks.layouts import LayoutGrammar, check_layouts

MODULES = ("_Find", "_Transform", "_And", "_Describe")  # those of the paper for VQA

_NO_LAYOUTS = (
    "n2nmn clones expert layouts, but these data have none (layouts_SPLIT.json); "
    "set model.module.network.search_after=0 to search for layouts from scratch"
)


class LayoutNetwork(OneFeatureNetwork):
    """A network that executes layouts written by a policy, and trains both.

    Args:
        modules: Names of the modules that a layout may use.
        max_layout: Steps of a layout, <eos> included.
        search_after: Number of training steps that clone the experts' layouts; afterwards layouts
            are sampled and the policy learns from their losses. None: always clones; 0: never.
        entropy_weight: lambda of the search.
        baseline_decay: decay of the baseline b.
        inputs: num_words, num_answers and feature_sizes, see `OneFeatureNetwork`.
    """

    reads_grid = True

    policy: LayoutPolicy
    baseline: Tensor
    steps: Tensor

    def __init__(
        self,
        *,
        modules: Sequence[str] = MODULES,
        max_layout: Count = 13,
        search_after: CountOrZero | None = None,
        entropy_weight: NonNegative = 0.005,
        baseline_decay: ShareBelowOne = 0.99,
        **inputs: Any,
    ) -> None:
        super().__init__(**inputs)
        self.grammar = LayoutGrammar(list(modules))
        self.max_layout, self.search_after = max_layout, search_after
        self.entropy_weight, self.baseline_decay = entropy_weight, baseline_decay
        self.register_buffer("baseline", torch.zeros(()))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks before a command starts that a valid layout can be built from the modules.

        Raises:
            UserError: None can be.
        """
        LayoutGrammar(list(arguments["modules"]))

    @classmethod
    def check_split(cls, arguments: Mapping[str, Any], split: VQASplit, *, learns: bool) -> None:
        """Checks the layouts of a split before features are computed.

        Args:
            arguments: Arguments of the constructor, defaults included.
            split: A split, with or without layouts.
            learns: Whether the network is trained on this split.

        Raises:
            UserError: The layout of a question is missing, too long or uses unknown modules, or the
                network clones layouts and there are none.
        """
        if split.layouts is None:
            if learns and arguments["search_after"] != 0:
                raise UserError(_NO_LAYOUTS)
            return
        check_layouts(
            LayoutGrammar(list(arguments["modules"])), split, int(arguments["max_layout"])
        )

    @abstractmethod
    def execute(self, images: ImageBatch, plan: Plan) -> Tensor:
        """Computes answer logits (B, K) under the layouts of a plan for B questions."""

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        return self.execute(images, self.policy(question, self.max_layout))

    def encode_layouts(self, layouts: Sequence[Sequence[str]]) -> Tensor:
        """Encodes N expert layouts, lists of module names, as token numbers (N, max_layout)."""
        return self.grammar.encode(layouts, self.max_layout)

    @override
    def follow(self, batch: VQABatch) -> Tensor:
        return self.execute(
            batch.images, self.policy(batch.question, self.max_layout, expert=batch.layout)
        )

    @override
    def plan(self, question: Tokens) -> list[list[str]]:
        layout = self.policy(question, self.max_layout).layout
        return [[self.grammar.tokens[token] for token in row if token] for row in layout.tolist()]

    @override
    def train_forward(self, batch: VQABatch) -> TrainingOutput:
        searching = self.search_after is not None and int(self.steps) >= self.search_after
        self.steps += 1
        if not searching:
            if batch.layout is None:
                raise UserError(_NO_LAYOUTS)
            plan = self.policy(batch.question, self.max_layout, expert=batch.layout)
            return TrainingOutput(
                self.execute(batch.images, plan), lambda _: {"layout": -plan.log_prob.mean()}
            )
        plan = self.policy(batch.question, self.max_layout, sample=True)

        def further(losses: Tensor) -> dict[str, Tensor]:
            cost = losses.detach()
            surrogate = ((cost - self.baseline) * plan.log_prob).mean()
            self.baseline.lerp_(cost.mean(), 1 - self.baseline_decay)
            return {"policy": surrogate, "entropy": -self.entropy_weight * plan.entropy.mean()}

        return TrainingOutput(self.execute(batch.images, plan), further)
