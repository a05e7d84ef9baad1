"""How numbers are said to people: 1 step, 2 steps."""


def count_of(number: float, what: str, kind: str = "") -> str:
    """count_of(1, "steps") is "1 step", count_of(1200, "pieces of text") "1,200 pieces of text". `kind` stands before
    the noun."""
    said = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    noun, space, rest = what.partition(" ")
    return f"{said} {kind}{noun.removesuffix('s') if number == 1 else noun}{space}{rest}"


def are(number: float, what: str, kind: str = "") -> str:
    """are(1, "steps") is "1 step is"."""
    return f"{count_of(number, what, kind)} {'is' if number == 1 else 'are'}"
