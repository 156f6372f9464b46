"""N2NMN: end-to-end module networks (Hu et al., ICCV 2017).

A policy p(l | q) writes a layout l of modules in reverse Polish notation. The attention alpha of
its step t over the words gives module t its text x_txt = sum_i alpha_ti w_i. The modules run on a
stack of attention maps; `neural_modules` has their equations. The answer scores of the last module
and of a question prior are added.

The policy learns by cloning experts, and by search. Cloning minimises the answer loss under the
experts' layouts l, and -log p(l | q). The search minimises E_p[loss(l)] - lambda H(p) by REINFORCE
with a baseline b:

gradient of the policy: (loss(l) - b) grad log p(l | q),  b <- decay b + (1 - decay) mean loss
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data import VQASplit
from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.ranges import Count, CountOrZero, NonNegative, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import OneFeatureNetwork, TrainingOutput
from ivqa.vqa.networks import kernels
from ivqa.vqa.networks.layout_policy import LayoutPolicy, Plan
from ivqa.vqa.networks.layouts import LayoutGrammar, check_layouts
from ivqa.vqa.networks.neural_modules import NeuralModules

MODULES = ("_Find", "_Transform", "_And", "_Describe")  # those of the paper for VQA

# Coordinates are in [-4, 4]; the paper has [-1, 1]. They stay smaller than the features here, but
# are large enough for _Transform to learn positions before it memorises the training questions.
_COORDINATES = 4.0

_NO_LAYOUTS = (
    "n2nmn clones expert layouts, but these data have none (layouts_SPLIT.json); "
    "set model.module.network.search_after=0 to search for layouts from scratch"
)


class N2NMN(OneFeatureNetwork):
    """The policy, the modules and the question prior; default sizes are the paper's for VQA.

    Deviations from the paper: norm() gives sqrt(d) instead of 1; coordinates are in [-4, 4] instead
    of [-1, 1]; the scores of _Find and _Transform start with a bias of -3; weights start as
    PyTorch's layers do instead of Xavier's; the baseline of the search starts at 0 instead of 0.5;
    _Exist, _Count and the comparisons see a summary of their maps. The paper's <go> is a row of the
    token embedding here. PyTorch's LSTM has two bias vectors.

    Args:
        embedding_size: d_w, size of words and of layout tokens.
        hidden_size: Size of the policy's LSTM states.
        num_layers: Layers of the policy's LSTMs.
        map_size: d of the modules.
        prior_size: Hidden units of the question prior.
        dropout: In the policy and the question prior.
        word_keys: Whether attention over words sees their embeddings too (`LayoutPolicy`).
        modules: Names of the modules that a layout may use.
        max_layout: Steps of a layout, <eos> included.
        search_after: Number of training steps that clone the experts' layouts; afterwards layouts
            are sampled and the policy learns from their losses. None: always clones; 0: never.
        entropy_weight: lambda of the search.
        baseline_decay: decay of the baseline b.
        inputs: See `OneFeatureNetwork`.
    """

    version: ClassVar[int] = 1

    name = "n2nmn"
    reads_grid = True

    baseline: Tensor
    steps: Tensor

    def __init__(
        self,
        *,
        embedding_size: Count = 300,
        hidden_size: Count = 1000,
        num_layers: Count = 2,
        map_size: Count = 1024,
        prior_size: Count = 500,
        dropout: ShareBelowOne = 0.5,
        word_keys: bool = False,
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
        self.policy = LayoutPolicy(
            num_words=self.num_words,
            grammar=self.grammar,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            dropout=dropout,
            word_keys=word_keys,
        )
        self.modules_ = NeuralModules(
            image_size=self.feature_size + 2,  # with coordinates
            text_size=embedding_size,
            size=map_size,
            num_answers=self.num_answers,
            modules=self.grammar.tokens,
        )
        self.prior = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(num_layers * hidden_size, prior_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(prior_size, self.num_answers),
        )

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

    @classmethod
    @override
    def check_features(
        cls, arguments: Mapping[str, Any], model: str, places: Mapping[str, int | None]
    ) -> None:
        super().check_features(arguments, model, places)
        (number,) = places.values()
        _side(number or 0)

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        return self.execute(images, self.policy(question, self.max_layout))[0]

    def encode_layouts(self, layouts: Sequence[Sequence[str]]) -> Tensor:
        """Encodes N expert layouts, lists of module names, as token numbers (N, max_layout)."""
        return self.grammar.encode(layouts, self.max_layout)

    def follow(self, batch: VQABatch) -> Tensor:
        """Computes answer logits (B, K) under the expert layouts of a batch."""
        plan = self.policy(batch.question, self.max_layout, expert=batch.layout)
        return self.execute(batch.images, plan)[0]

    def plan(self, question: Tokens) -> list[list[str]]:
        """Predicts the layouts that `forward` executes: the module names of each question."""
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
            logits, _ = self.execute(batch.images, plan)
            return TrainingOutput(logits, lambda _: {"layout": -plan.log_prob.mean()})
        plan = self.policy(batch.question, self.max_layout, sample=True)

        def further(losses: Tensor) -> dict[str, Tensor]:
            cost = losses.detach()
            surrogate = ((cost - self.baseline) * plan.log_prob).mean()
            self.baseline.lerp_(cost.mean(), 1 - self.baseline_decay)
            return {"policy": surrogate, "entropy": -self.entropy_weight * plan.entropy.mean()}

        return TrainingOutput(self.execute(batch.images, plan)[0], further)

    @override
    def attention_maps(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Computes softmax(a) of the maps a that the last module of each layout takes."""
        answers = self.execute(images, self.policy(question, self.max_layout))[1]
        grid = images.feature(self.feature)
        seen = grid.new_full((len(images), grid.shape[1]), 1 / grid.shape[1], dtype=torch.float32)
        for rows, maps in answers:
            if maps:
                mean = torch.stack([scores.float().softmax(dim=1) for scores in maps]).mean(dim=0)
                seen = seen.index_put((rows,), mean)
        return seen[:, None]

    def execute(
        self, images: ImageBatch, plan: Plan
    ) -> tuple[Tensor, list[tuple[Tensor, list[Tensor]]]]:
        """Runs layouts step by step, all questions with the same module together.

        Returns answer logits (B, K), and of each module that answered the rows of its questions
        (n,) and the maps that it took, (n, L) each.
        """
        answers: list[tuple[Tensor, list[Tensor]]] = []
        grid = self.grid_of(images)
        x = torch.cat([grid, _coordinates(grid)], dim=2)  # (M, L, d_v + 2)
        x, index = kernels.repeat_images(x, images.index)  # (B or M, L, d_v + 2)
        size, length = len(images.index), x.shape[1]
        found = self.modules_.find_maps(x, index, plan.text)  # (B, T, L)
        # `stack` (B, T + 1, L) holds the maps of each question, `depth` (B,) their number. A layout
        # of T steps never has more than T maps.
        stack = x.new_zeros(size, self.max_layout + 1, length)
        depth = torch.zeros(size, dtype=torch.int64, device=x.device)
        logits = self.prior(plan.summary).float()  # float32 under autocast too
        for step in range(self.max_layout):
            token = plan.layout[:, step]
            for number in token.unique().tolist():
                if number == 0:  # <eos>
                    continue
                name, arity = self.grammar.tokens[number], int(self.grammar.arity[number])
                rows = (token == number).nonzero()[:, 0]  # questions with this module, (n,)
                base = depth[rows] - arity  # the place of its first map, where its result goes
                if name == "_Find":
                    result = found[rows, step]
                else:
                    maps = [stack[rows, base + offset] for offset in range(arity)]  # (n, L) each
                    inputs = x[rows if index is None else index[rows]], plan.text[rows, step], maps
                    if self.grammar.answers[number]:
                        answers.append((rows, maps))
                        answer = self.modules_.answer_of(name, *inputs).float()
                        logits = logits.index_add(0, rows, answer)
                        depth = depth.index_fill(0, rows, 0)
                        continue
                    result = self.modules_.map_of(name, *inputs)
                stack = stack.index_put((rows, base), result.to(stack.dtype))
                depth = depth.index_put((rows,), base + 1)
        return logits, answers


def _side(number: int) -> int:
    """The side of a square grid of `number` positions; raises UserError for another grid."""
    side = round(number**0.5)
    if side * side != number:
        raise UserError(f"n2nmn needs a square grid, not one of {number} positions")
    return side


def _coordinates(grid: Tensor) -> Tensor:
    """X and y of the positions of a square grid, (M, L, 2), row by row; 0 in the centre."""
    side = _side(grid.shape[1])
    line = _COORDINATES * torch.linspace(-1, 1, side, device=grid.device, dtype=grid.dtype)
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([columns, rows], dim=2).reshape(1, -1, 2).expand(len(grid), -1, -1)
