"""The modules of N2NMN (Hu et al. 2017), each a function of text, image and attention maps.

x are the L positions of a grid with coordinates, x_txt is the text of a module, a is an attention
map: unnormalised scores of the positions.

_Find           w^T norm(W x * U x_txt)                          -> a
_Transform(a)   w^T norm(W x * U x_txt * V sum softmax(a) x)     -> a
_And(a, b)      min(a, b)                                        -> a
_Or(a, b)       max(a, b)                                        -> a
_Describe(a)    W norm(U x_txt * V sum softmax(a) x)             -> answer scores
_Scene          W norm(U x_txt * V mean x)
_SameProperty   W norm(U x_txt * V sum softmax(a) x * V sum softmax(b) x)
_Exist, _Count, _Answer(a)     W s(a);   _MoreNum, _EqualNum(a, b)   W relu(W' [s(a); s(b)])

s(a) holds max, mean and min of a and the sum of sigmoid(a) over the positions. The paper's W vec(a)
has weights for each position, which counting does not need, and is bound to one grid size.

norm() gives l2 norm sqrt(d) instead of 1. At norm 1, the first scores are so close to each other
that attention stays uniform for thousands of steps; w could absorb the factor.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.vqa.networks import kernels

# Initial bias of attention scores: few positions hold what is looked for. Attention does not depend
# on it, but counting starts near the number of objects instead of half the number of positions.
_ABSENT = -3.0


class NeuralModules(nn.Module):
    """The weights of all modules.

    Args:
        image_size: d_x, size of x.
        text_size: d_w, size of x_txt.
        size: d, size of the products.
        num_answers: K.
        modules: Names of the modules that a layout may use. _Find and _Transform always exist; of
            those that answer, only the named ones.
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
        # Unused modules are deleted only now, so that the initial weights of a module do not
        # depend on which others are used.
        for layers in (self.text, self.seen, self.answer, self.counting, self.comparing):
            for name in set(layers) - set(modules):
                del layers[name]
        for layer in (self.find, self.transform):
            nn.init.constant_(layer.bias, _ABSENT)

    def find_maps(self, x: Tensor, index: Tensor | None, text: Tensor) -> Tensor:
        """Computes the attention maps (B, T, L) of _Find for all T texts of each question at once.

        _Find needs no map of another module, so that each position is projected only once.

        Args:
            x: Positions of M images, (M, L, d_x).
            index: Image of each question, (B,) int64; None where image b belongs to question b.
            text: Texts of T steps, (B, T, d_w).
        """
        guides = self.find_text(text)  # U x_txt, (B, T, d)
        return kernels.normalised_scores(guides, self.find_image, self.find, x, index)

    def map_of(self, name: str, x: Tensor, text: Tensor, maps: list[Tensor]) -> Tensor:
        """Computes the attention map (n, L) of _And, _Or or _Transform.

        Args:
            name: Name of the module.
            x: Positions, (n, L, d_x).
            text: x_txt, (n, d_w).
            maps: The attention maps that it takes, (n, L) each.
        """
        if name == "_And":
            return torch.minimum(*maps)
        if name == "_Or":
            return torch.maximum(*maps)
        guide = self.transform_text(text) * self.transform_seen(_attended(maps[0], x))  # (n, d)
        scores = kernels.normalised_scores(
            guide[:, None], self.transform_image, self.transform, x, None
        )
        return scores[:, 0]

    def answer_of(self, name: str, x: Tensor, text: Tensor, maps: list[Tensor]) -> Tensor:
        """Computes the answer scores (n, K) of a module that answers; arguments as in `map_of`."""
        if name in self.counting:
            return self.counting[name](_summary(maps[0]))
        if name in self.comparing:
            return self.comparing[name](torch.cat([_summary(maps[0]), _summary(maps[1])], dim=1))
        seen = [_attended(scores, x) for scores in maps] or [x.mean(dim=1)]  # (n, d_x) each
        joint = self.text[name](text)
        for vector in seen:
            joint = joint * self.seen[name](vector)  # (n, d)
        return self.answer[name](_norm(joint))


def _attended(scores: Tensor, x: Tensor) -> Tensor:
    """Sum of x (n, L, d_x) under softmax(scores) (n, L): (n, d_x)."""
    return torch.einsum("nl,nld->nd", scores.softmax(dim=1), x)


def _norm(values: Tensor) -> Tensor:
    """norm() of the equations: `values` (n, d) with l2 norm sqrt(d)."""
    return F.normalize(values, dim=-1) * values.shape[-1] ** 0.5


def _summary(scores: Tensor) -> Tensor:
    """s(a), (n, 4): max, mean and min of the scores, and the sum of their sigmoids."""
    return torch.stack(
        [scores.amax(1), scores.mean(1), scores.amin(1), scores.sigmoid().sum(1)], dim=1
    )
