"""Layouts of module networks in reverse Polish notation, and their grammar (Hu et al. 2017)."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ivqa.data import VQASplit
from ivqa.errors import UserError

EOS = "<eos>"
_UNREACHABLE = 10**6  # more steps than any layout has

# Number of attention maps that each module takes from the stack.
MAP_MODULES = {"_Find": 0, "_Transform": 1, "_And": 2, "_Or": 2}
ANSWER_MODULES = {
    "_Scene": 0,
    "_Exist": 1,
    "_Count": 1,
    "_Describe": 1,
    "_Answer": 1,
    "_MoreNum": 2,
    "_EqualNum": 2,
    "_SameProperty": 2,
}


class LayoutGrammar:
    """Module tokens as numbers, and the layouts that can be built from the `modules`.

    Token 0 is <eos>. A layout is valid if each module finds its maps on the stack and exactly one
    module answers, at the end, with no map left.

    Raises:
        UserError: A module is unknown, or none of them answers.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        unknown = [name for name in modules if name not in MAP_MODULES | ANSWER_MODULES]
        if unknown or not set(modules) & set(ANSWER_MODULES):
            known = ", ".join(MAP_MODULES | ANSWER_MODULES)
            raise UserError(
                f"modules={list(modules)} must hold an answer module and only these: {known}"
            )
        self.tokens = [EOS, *modules]
        arities: Mapping[str, int] = {EOS: 0, **MAP_MODULES, **ANSWER_MODULES}
        self.arity = torch.tensor([arities[name] for name in self.tokens])
        self.answers = torch.tensor([name in ANSWER_MODULES for name in self.tokens])
        taken = {ANSWER_MODULES[name] for name in modules if name in ANSWER_MODULES}
        self._finish = _steps_to_finish(
            taken, "_And" in modules or "_Or" in modules, "_Find" in modules
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, layouts: Sequence[Sequence[str]], length: int) -> Tensor:
        """Encodes N layouts, lists of module names, as token numbers (N, length) int64.

        Each ends with at least one <eos>, which also fills it up.

        Raises:
            UserError: A module is unknown, or a layout has no room for <eos>.

        Example:
            >>> LayoutGrammar(["_Find", "_Describe"]).encode([["_Find", "_Describe"]], 3)
            tensor([[1, 2, 0]])
        """
        index = {name: number for number, name in enumerate(self.tokens)}
        encoded = torch.zeros(len(layouts), length, dtype=torch.int64)
        for row, layout in enumerate(layouts):
            unknown = [name for name in layout if name not in index]
            if unknown:
                raise UserError(
                    f"layout {' '.join(layout)} uses {unknown[0]}, which is not among the modules "
                    f"{', '.join(self.tokens[1:])}; add it to them"
                )
            if len(layout) >= length:
                raise UserError(
                    f"layout {' '.join(layout)} has no room in {length} steps; raise max_layout"
                )
            encoded[row, : len(layout)] = torch.tensor([index[name] for name in layout])
        return encoded

    def allowed(self, maps: Tensor, answered: Tensor, steps_left: int) -> Tensor:
        """Finds the tokens that can still lead to a valid layout, (B, V) bool.

        Args:
            maps: Number of maps on the stack, (B,) int64.
            answered: Whether an answer module was among the tokens, (B,) bool.
            steps_left: Steps left, this one included.
        """
        arity, answers = self.arity.to(maps.device), self.answers.to(maps.device)
        has_maps = maps[:, None] >= arity
        finish = self._finish.to(maps.device)
        after = (maps[:, None] - arity + 1).clamp(0, len(finish) - 1)
        in_time = finish[after] <= steps_left - 1
        mapping = ~answers & has_maps & in_time
        # An answer module takes the whole stack, and nothing follows it.
        ending = answers & (maps[:, None] == arity)
        may = torch.where(answers, ending, mapping) & ~answered[:, None]
        may[:, 0] = answered
        return may

    def advance(self, maps: Tensor, answered: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the state `maps` and `answered` of `allowed` after the next token, (B,) int64."""
        arity, answers = self.arity.to(maps.device)[token], self.answers.to(maps.device)[token]
        grown = torch.where(token == 0, maps, maps - arity + 1)
        return torch.where(answers, torch.zeros_like(maps), grown), answered | answers

    def valid(self, layouts: Tensor) -> Tensor:
        """Checks whether each of B layouts (B, T) int64 is valid and ends with <eos>, (B,) bool."""
        maps = layouts.new_zeros(len(layouts))
        answered = torch.zeros_like(maps, dtype=torch.bool)
        good = torch.ones_like(answered)
        for step in range(layouts.shape[1]):
            token = layouts[:, step]
            may = self.allowed(maps, answered, _UNREACHABLE)  # whatever the length
            good = good & may.gather(1, token[:, None])[:, 0]
            maps, answered = self.advance(maps, answered, token)
        return good & answered & (layouts[:, -1] == 0)


def check_layouts(grammar: LayoutGrammar, split: VQASplit, length: int) -> None:
    """Checks that each question has a layout that the grammar can encode in `length` steps.

    Raises:
        UserError: A layout is missing or wrong; the message has split and question.
    """
    layouts = split.layouts or {}
    ids = split.question_ids.tolist()
    if absent := [number for number in ids if number not in layouts]:
        raise UserError(
            f"split '{split.name}' has no layout for question {absent[0]} ({len(absent)} in "
            "all); add them or remove its layout file"
        )
    first: dict[tuple[str, ...], int] = {}  # the first question of each distinct layout
    for number in ids:
        first.setdefault(tuple(layouts[number]), number)
    for layout, number in first.items():
        try:
            encoded = grammar.encode([layout], length)
        except UserError as error:
            raise UserError(f"split '{split.name}', question {number}: {error}") from None
        if not grammar.valid(encoded).item():
            raise UserError(
                f"split '{split.name}', question {number}: layout {' '.join(layout)} is not in "
                "reverse Polish with one answer module at its end; repair the layout file"
            )


def _steps_to_finish(taken: set[int], joins: bool, finds: bool, most: int = 64) -> Tensor:
    """Fewest steps, <eos> included, from n maps on the stack to a valid layout, (most,) int64.

    taken: numbers of maps that answer modules take. joins: whether there is _And or _Or. finds:
    whether there is _Find. most: largest number of maps, exclusive.
    """
    steps = [_UNREACHABLE] * most
    for maps in range(most):
        if maps in taken:
            steps[maps] = 2
    for _ in range(most):
        for maps in range(most):
            if joins and maps >= 2:
                steps[maps] = min(steps[maps], steps[maps - 1] + 1)
            if finds and maps + 1 < most:
                steps[maps] = min(steps[maps], steps[maps + 1] + 1)
    return torch.tensor(steps)
