"""Tables as Markdown and HTML."""

from __future__ import annotations

from sgrl.markup import Html, html_table, markdown_table


def test_markdown_is_aligned() -> None:
    assert markdown_table(("body", "n"), [("a", "1"), ("walker", "1,000")]).splitlines() == [
        "| body   |     n |",
        "| ------ | ----: |",
        "| a      |     1 |",
        "| walker | 1,000 |",
    ]
    assert markdown_table(("a", "b"), [], left=2).splitlines()[1] == "| --- | --- |"


def test_html_is_escaped_once() -> None:
    made = html_table(("<a>", "n", "what"), [("b", Html("<b>1</b>"), "&")], right=1)
    assert "<th>&lt;a&gt;</th><th class=number>n</th><th>what</th>" in made
    assert "<td>b</td><td class=number><b>1</b></td><td>&amp;</td>" in made
    assert made.startswith('<div class="scroll"><table>')
