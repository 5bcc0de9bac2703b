"""Text of others, so that a terminal or a log shows it and does not obey it.

Names, bodies and reasons come from nodes, files and people elsewhere. Raw they could clear the
screen, rewrite earlier lines, or make up further ones.
"""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: object) -> str:
    """The text on one line, in which everything that is no visible character is escaped."""
    said = str(text)
    if said.isprintable():
        return said
    return "".join(one if one.isprintable() else _escaped(one) for one in said)


def printable_lines(text: object) -> str:
    """The same for a text of our own that has several lines, and text of others within them."""
    return "\n".join(printable(line) for line in str(text).split("\n"))


def _escaped(one: str) -> str:
    if one in _SHORT:
        return _SHORT[one]
    number = ord(one)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
