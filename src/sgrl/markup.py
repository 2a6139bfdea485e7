"""Tables as Markdown and as HTML, and text that anybody may have written in them: it is shown as
it is, and ends no line, cell or element."""

from __future__ import annotations

import html
from collections.abc import Sequence


class Html(str):
    """Text that is HTML already and needs no escaping."""

    __slots__ = ()


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A table to read as it is; the first `left` columns are of words, the others of numbers."""
    lines = [[markdown_cell(cell) for cell in line] for line in (titles, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    padded = [
        [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(pairs)]
        for pairs in (zip(line, widths, strict=True) for line in lines)
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (padded[0], rule, *padded[1:]))


def one_line(text: str) -> str:
    """Text without line breaks and without codes that a terminal obeys: they are spelled out."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def error_lines(error: BaseException) -> str:
    """What an error says: one line, unless it has `lines`."""
    return "\n".join(map(one_line, getattr(error, "lines", None) or [str(error)]))


def markdown_cell(text: str) -> str:
    """Text in a table of Markdown, in which nothing ends the cell or is HTML."""
    return one_line(text).replace("|", r"\|").replace("<", "&lt;")


def html_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, right: int = 0
) -> Html:
    """A table; the first `left` and the last `right` columns are of words, others of numbers.

    It is in a box of its own, which scrolls where the table is wider than the page.
    """
    numbers = range(left, len(titles) - right)

    def line(cells: Sequence[str], tag: str) -> str:
        made = (
            f"<{tag}{' class=number' if index in numbers else ''}>{escape(cell)}</{tag}>"
            for index, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return Html(
        f'<div class="scroll"><table><thead>{line(titles, "th")}</thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def escape(text: str) -> str:
    """Text as HTML, unless it is that already."""
    return text if isinstance(text, Html) else html.escape(text)
