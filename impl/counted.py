"""Numbers of things in messages: `1 slot`, `2,000 slots`."""


def counted(number: int, thing: str, things: str = "") -> str:
    """So many of them; `things` is the plural where it is not `thing` and an s."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"
