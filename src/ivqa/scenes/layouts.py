"""Expert layouts: the programs of questions as sequences of neural modules."""

from ivqa.scenes.programs import Program, Things


def layout(program: Program) -> list[str]:
    """The expert layout of a question for module networks (Hu et al., N2NMN, ICCV 2017).

    These modules give an attention map: _Find takes no map, _Transform one, _And two. These give
    the answer: _Scene takes no map; _Exist, _Count and _Describe one; _MoreNum, _EqualNum and
    _SameProperty two.

    Args:
        program: The meaning of the question.

    Returns:
        Names of modules in reverse Polish notation; the last one gives the answer.

    Example:
        >>> from ivqa.scenes.programs import Noun
        >>> layout(Program("count", Things(Noun(shape="star"))))
        ['_Find', '_Count']
    """
    if program.kind in ("scene_query", "scene_check"):
        return ["_Scene"]
    assert program.subject is not None
    first = _map_of(program.subject)
    if program.kind in ("exist", "count"):
        return [*first, "_Exist" if program.kind == "exist" else "_Count"]
    if program.kind in ("query", "check"):
        return [*first, "_Describe"]
    assert program.other is not None
    second = _map_of(program.other)
    if program.kind == "relate":
        # From `other` in the direction of the relation, then intersected with the subject.
        return [*second, "_Transform", *first, "_And", "_Exist"]
    last = {"more": "_MoreNum", "equal": "_EqualNum"}.get(program.kind, "_SameProperty")
    return [*first, *second, last]


def _map_of(things: Things) -> list[str]:
    """The modules that give the attention map of a phrase."""
    if things.relation is not None:
        return ["_Find", "_Transform", "_Find", "_And"]
    return ["_Find"] if things.extreme is None else ["_Find", "_Transform"]
