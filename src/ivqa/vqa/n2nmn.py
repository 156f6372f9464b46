"""N2NMN: end-to-end module networks (Hu et al., ICCV 2017).

A policy p(l | q) writes a layout l of modules in reverse Polish; the attention of its step t over
the words gives module t its text x_txt = sum_i alpha_i w_i; the modules run on a stack of
attention maps (unnormalised scores a over the L positions of x, the grid with coordinates):

_Find           w^T norm(W x * U x_txt)                          -> a
_Transform(a)   w^T norm(W x * U x_txt * V sum softmax(a) x)     -> a
_And(a, b)      min(a, b)                                        -> a
_Describe(a)    W norm(U x_txt * V sum softmax(a) x)             -> answer scores
_Scene          W norm(U x_txt * V mean x)
_SameProperty   W norm(U x_txt * V sum softmax(a) x * V sum softmax(b) x)
_Exist, _Count, _Answer(a)     W s(a);   _MoreNum, _EqualNum(a, b)   W relu(W' [s(a); s(b)])

s(a) holds max, mean and min of a and what sigmoid(a) sums to over the positions: the paper's
W vec(a) knows where things are, which counting need not, and is bound to one grid size.
Answer scores of a question prior are added.

norm() gives l2 norm sqrt(d) instead of 1: at norm 1 the scores begin so close to each other that
attention stays even for thousands of steps; the factor is one that w could absorb.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.ranges import Count, CountOrZero, NonNegative, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.layout_policy import LayoutPolicy, Plan
from ivqa.vqa.layouts import LayoutGrammar
from ivqa.vqa.network import (
    TrainingOutput,
    VQANetwork,
    checked_grid,
    products_by_image,
    repeated_unless_shared,
    single_feature,
)

MODULES = ("_Find", "_Transform", "_And", "_Describe")  # those of the paper for VQA

# First bias of attention scores: few places hold what is looked for. Attention does not see it,
# counting begins near the number of things instead of half the number of places.
_ABSENT = -3.0
_TINY = 1e-8
# Coordinates reach so far from 0, where the paper has 1: less than what features do here, but
# enough for _Transform to learn where things are before it knows them by heart.
_COORDINATES = 4.0


class NeuralModules(nn.Module):
    """The modules: those that find, for a whole batch; others, for what needs them at a step.

    modules: names of those that answer; _Find, _Transform and _And are always there.
    """

    def __init__(
        self,
        *,
        image_size: int,
        text_size: int,
        size: int,
        num_answers: int,
        modules: Sequence[str],
    ) -> None:
        super().__init__()
        self.find_image = nn.Linear(image_size, size)
        self.find_text = nn.Linear(text_size, size)
        self.find = nn.Linear(size, 1)
        self.transform_image = nn.Linear(image_size, size)
        self.transform_text = nn.Linear(text_size, size)
        self.transform_seen = nn.Linear(image_size, size)
        self.transform = nn.Linear(size, 1)
        names = ("_Describe", "_Scene", "_SameProperty")
        self.text = nn.ModuleDict({name: nn.Linear(text_size, size) for name in names})
        self.seen = nn.ModuleDict({name: nn.Linear(image_size, size) for name in names})
        self.answer = nn.ModuleDict({name: nn.Linear(size, num_answers) for name in names})
        self.counting = nn.ModuleDict(
            {name: nn.Linear(4, num_answers) for name in ("_Exist", "_Count", "_Answer")}
        )
        self.comparing = nn.ModuleDict(
            {
                name: nn.Sequential(nn.Linear(8, size), nn.ReLU(), nn.Linear(size, num_answers))
                for name in ("_MoreNum", "_EqualNum")
            }
        )
        # Dropped only now: how a module starts does not depend on which others there are.
        for layers in (self.text, self.seen, self.answer, self.counting, self.comparing):
            for name in set(layers) - set(modules):
                del layers[name]
        for layer in (self.find, self.transform):
            nn.init.constant_(layer.bias, _ABSENT)

    def find_maps(self, x: Tensor, index: Tensor | None, text: Tensor) -> Tensor:
        """Attention scores (B, T, L) of _Find for each text (B, T, d_w) of a question.

        x (M, L, d) and index as of `products_by_image`. No map goes in, so that all can be made at
        once, each place being projected once.
        """
        return _scores(self.find_image, x, index, self.find_text(text), self.find)

    def map_of(self, name: str, x: Tensor, text: Tensor, maps: list[Tensor]) -> Tensor:
        """Attention scores (n, L) of a module made from maps; x (n, L, d), text (n, d_w)."""
        if name == "_And":
            return torch.minimum(*maps)
        guide = self.transform_text(text) * self.transform_seen(_attended(maps[0], x))
        return _scores(self.transform_image, x, None, guide[:, None], self.transform)[:, 0]

    def answer_of(self, name: str, x: Tensor, text: Tensor, maps: list[Tensor]) -> Tensor:
        """Answer scores (n, K) of a module that answers."""
        if name in self.counting:
            return self.counting[name](_summary(maps[0]))
        if name in self.comparing:
            return self.comparing[name](torch.cat([_summary(maps[0]), _summary(maps[1])], dim=1))
        seen = [_attended(scores, x) for scores in maps] or [x.mean(dim=1)]
        joint = self.text[name](text)
        for vector in seen:
            joint = joint * self.seen[name](vector)
        return self.answer[name](_unit(joint))


class N2NMN(VQANetwork):
    """The policy, the modules and the question prior; sizes are those of the paper for VQA.

    Other than the paper's: norm() gives sqrt(d) instead of 1, coordinates reach to 4 instead of 1,
    the scores of _Find and _Transform begin at a bias of -3, weights start as PyTorch's layers do
    instead of Xavier's way, and the baseline of the search starts at 0 instead of 0.5. The paper's
    <go> is a row of the embedding of tokens. _Exist, _Count and the comparisons see a summary of
    their maps. PyTorch's LSTM has two vectors of biases.

    Args:
        num_words: Size of the vocabulary, specials included.
        num_answers: K.
        feature_sizes: The name of one spatial feature, and its channels.
        modules: Those that a layout may use.
        embedding_size: Of words and of layout tokens.
        hidden_size: Of the policy's LSTM states.
        num_layers: Of the policy's LSTMs.
        map_size: d of the modules.
        prior_size: Hidden units of the question prior.
        max_layout: Steps of a layout, <eos> included.
        dropout: In the policy and the question prior.
        word_keys: Whether attention over words sees their embeddings too (`LayoutPolicy`).
        search_after: Training steps of cloning the experts' layouts before layouts are sampled and
            the policy learns from their losses; None only clones, 0 never does.
        entropy_weight: lambda of the search.
        baseline_decay: Of the search: b <- decay b + (1 - decay) mean loss.
    """

    baseline: Tensor
    steps: Tensor

    def __init__(
        self,
        *,
        num_words: int,
        num_answers: int,
        feature_sizes: Mapping[str, int],
        modules: Sequence[str] = MODULES,
        embedding_size: Count = 300,
        hidden_size: Count = 1000,
        num_layers: Count = 2,
        map_size: Count = 1024,
        prior_size: Count = 500,
        max_layout: Count = 13,
        dropout: ShareBelowOne = 0.5,
        word_keys: bool = False,
        search_after: CountOrZero | None = None,
        entropy_weight: NonNegative = 0.005,
        baseline_decay: ShareBelowOne = 0.99,
    ) -> None:
        super().__init__()
        self.feature, self.feature_size = single_feature(feature_sizes, "n2nmn")
        self.grammar = LayoutGrammar(list(modules))
        self.max_layout, self.search_after = max_layout, search_after
        self.entropy_weight, self.baseline_decay = entropy_weight, baseline_decay
        self.policy = LayoutPolicy(
            num_words=num_words,
            grammar=self.grammar,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            dropout=dropout,
            word_keys=word_keys,
        )
        self.modules_ = NeuralModules(
            image_size=self.feature_size + 2,
            text_size=embedding_size,
            size=map_size,
            num_answers=num_answers,
            modules=modules,
        )
        self.prior = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(num_layers * hidden_size, prior_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(prior_size, num_answers),
        )
        self.register_buffer("baseline", torch.zeros(()))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Answer logits (B, K) under the most probable layouts, word by word."""
        return self.execute(images, self.policy(question, self.max_layout))

    def encode_layouts(self, layouts: Sequence[Sequence[str]]) -> Tensor:
        """Expert layouts as numbers (N, max_layout), <eos> behind their end."""
        return self.grammar.encode(layouts, self.max_layout)

    def follow(self, batch: VQABatch) -> Tensor:
        """Answer logits (B, K) under the batch's expert layouts."""
        return self.execute(
            batch.images, self.policy(batch.question, self.max_layout, expert=batch.layout)
        )

    def plan(self, question: Tokens) -> list[list[str]]:
        """The layouts that `forward` uses, as module names."""
        layout = self.policy(question, self.max_layout).layout
        return [[self.grammar.tokens[token] for token in row if token] for row in layout.tolist()]

    def train_forward(self, batch: VQABatch) -> TrainingOutput:
        """Cloning: logits under the experts' layouts. Search: under sampled ones, with REINFORCE.

        Raises UserError where an expert is to be cloned and the batch has no layouts.
        """
        searching = self.search_after is not None and int(self.steps) >= self.search_after
        self.steps += 1
        if not searching:
            if batch.layout is None:
                raise UserError(
                    "n2nmn clones expert layouts, but these data have none (layouts_SPLIT.json); "
                    "set model.module.network.search_after=0 to search for layouts from scratch"
                )
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

    def execute(self, images: ImageBatch, plan: Plan) -> Tensor:
        """Answer logits (B, K): all questions step by step, those of one module together."""
        grid = checked_grid(images, self.feature, self.feature_size)
        x, index = repeated_unless_shared(
            torch.cat([grid, _coordinates(grid)], dim=2), images.index
        )  # (M or B, L, d + 2)
        size, length = len(images.index), x.shape[1]
        found = self.modules_.find_maps(x, index, plan.text)  # (B, T, L)
        # Scores below the stack's first are never read; two maps and one in the making suffice
        # for most layouts, deeper ones need one a step.
        stack = x.new_zeros(size, self.max_layout + 1, length)
        depth = torch.zeros(size, dtype=torch.int64, device=x.device)
        logits = self.prior(plan.summary).float()  # whatever the autocast precision
        for step in range(self.max_layout):
            token = plan.layout[:, step]
            for number in token.unique().tolist():
                if number == 0:
                    continue
                name, arity = self.grammar.tokens[number], int(self.grammar.arity[number])
                rows = (token == number).nonzero()[:, 0]
                at = depth[rows] - arity
                if name == "_Find":
                    made = found[rows, step]
                else:
                    maps = [stack[rows, at + taken] for taken in range(arity)]
                    given = x[rows if index is None else index[rows]], plan.text[rows, step], maps
                    if self.grammar.answers[number]:
                        answer = self.modules_.answer_of(name, *given).float()
                        logits = logits.index_add(0, rows, answer)
                        depth = depth.index_fill(0, rows, 0)
                        continue
                    made = self.modules_.map_of(name, *given)
                stack = stack.index_put((rows, at), made.to(stack.dtype))
                depth = depth.index_put((rows,), at + 1)
        return logits


def _attended(scores: Tensor, x: Tensor) -> Tensor:
    """Sum of x (n, L, d) under softmax(scores) (n, L): (n, d)."""
    return torch.einsum("nl,nld->nd", scores.softmax(dim=1), x)


def _scores(
    project: nn.Linear, x: Tensor, index: Tensor | None, guides: Tensor, score: nn.Linear
) -> Tensor:
    """w^T norm(W x * guide) + b, (B, G, L), for G guides (B, G, d) a question.

    x (M, L, d) and index as of `products_by_image`; W is `project`, w and b are `score`. The
    products W x * guide are never made: their sums under w are linear in x, so that guides meet W
    first, and their squared norms are products of squares.
    """
    pointed = guides * score.weight
    sums = (
        products_by_image(pointed @ project.weight, x, index) + (pointed @ project.bias)[..., None]
    )
    squares = products_by_image(guides.square(), project(x).square(), index)
    return sums * (squares / guides.shape[2] + _TINY).rsqrt() + score.bias


def _unit(values: Tensor) -> Tensor:
    """norm() of the equations: `values` (n, d) at l2 norm sqrt(d)."""
    return F.normalize(values, dim=-1) * values.shape[-1] ** 0.5


def _summary(scores: Tensor) -> Tensor:
    """(n, 4): max, mean and min, and how many positions sigmoid counts."""
    return torch.stack(
        [scores.amax(1), scores.mean(1), scores.amin(1), scores.sigmoid().sum(1)], dim=1
    )


def _coordinates(grid: Tensor) -> Tensor:
    """X and y of the positions of a square grid, (M, L, 2), row by row; 0 in its centre."""
    side = round(grid.shape[1] ** 0.5)
    if side * side != grid.shape[1]:
        raise UserError(f"n2nmn needs a square grid, not one of {grid.shape[1]} positions")
    line = _COORDINATES * torch.linspace(-1, 1, side, device=grid.device, dtype=grid.dtype)
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([columns, rows], dim=2).reshape(1, -1, 2).expand(len(grid), -1, -1)
