"""The docs as a site: `make docs`. Pages are Markdown; nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

import sgrl

DOCS = Path(__file__).parent
PACKAGE = Path(sgrl.__file__).parent

project = "sgrl"
author = "The sgrl developers"
release = version_of("sgrl")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "results/data"]
suppress_warnings = [
    "ref.python",  # a shape in a type, such as (rows, limbs), is no reference
    "toc.not_included",  # a test sees to it that each page can be reached
]
default_role = "literal"  # docstrings say `name`, as Markdown does

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
python_use_unqualified_type_names = True
toc_object_entries = False

html_theme = "furo"
html_title = f"sgrl {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False


def write_api(app: Sphinx) -> None:
    """Write a page for each package of the source, with all of its modules."""
    folder = DOCS / "reference" / "api"
    folder.mkdir(exist_ok=True)
    for package in [PACKAGE, *sorted(file.parent for file in PACKAGE.glob("*/__init__.py"))]:
        name = ".".join(package.relative_to(PACKAGE.parent).parts)
        modules = [name] + [
            f"{name}.{file.stem}"
            for file in sorted(package.glob("*.py"))
            if not file.stem.startswith("_")
        ]
        text = "\n\n".join(_module(module) for module in modules)
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def _module(name: str) -> str:
    """The part of a page that is about one module."""
    is_package = "." not in name or (PACKAGE / name.partition(".")[2]).is_dir()
    lines = [
        f"{'#' if is_package else '##'} {name}",
        "",
        "```{eval-rst}",
        f".. automodule:: {name}",
    ]
    if not is_package:
        lines += ["   :members:", "   :show-inheritance:"]
    elif name == "sgrl":
        for public in sgrl.__all__:
            if not public.startswith("_"):
                kind = "class" if isinstance(getattr(sgrl, public), type) else "function"
                # The entry in the index leads to where it is defined.
                lines += ["", f".. auto{kind}:: sgrl.{public}", "   :no-index:"]
                lines += ["   :members:"] if kind == "class" else []
    return "\n".join([*lines, "```", ""])


def add_menu(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make the lists of links of a first page the menu of the site, a part for each heading."""
    if docname == "reference/api":
        pages = sorted(f"api/{page.stem}" for page in (DOCS / "reference" / "api").glob("*.md"))
        source[0] += _menu("", pages).replace(":hidden:", ":titlesonly:")
    elif docname == "results/index":
        source[0] += _menu("", re.findall(r"^- .*?\]\(([\w/]+)\.md\)", source[0], re.MULTILINE))
    elif docname == "index":
        first, *parts = re.split(r"^## (.*)\n", source[0], flags=re.MULTILINE)
        # Above the headings, or each menu would count as a part of one.
        source[0] = first
        for title, text in zip(parts[::2], parts[1::2], strict=True):
            source[0] += _menu(title, re.findall(r"\]\(([\w/]+)\.md\)", text))
        source[0] += "".join(
            f"\n## {title}\n{text}" for title, text in zip(parts[::2], parts[1::2], strict=True)
        )


def _menu(title: str, pages: list[str]) -> str:
    caption = f":caption: {title}\n" if title else ""
    return f"\n\n```{{toctree}}\n:hidden:\n{caption}\n" + "\n".join(pages) + "\n```\n"


def read_docstring(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Docstrings are plain text with `names` and a list of arguments: a | or * is no markup."""
    for number, line in enumerate(lines):
        parts = re.split(r"(`[^`]*`)", line)
        parts[::2] = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
        lines[number] = "".join(parts)
    if what in ("class", "function", "method"):
        # Of an attribute it would take what stands before a colon for the type.
        lines[:] = GoogleDocstring(lines, Config(), what=what, name=name, obj=obj).lines()


def write_math(translator: object, node: nodes.Element) -> None:
    """An equation as MathML, which browsers draw without a script."""
    block = isinstance(node, nodes.math_block)
    markup = convert(node.astext(), display="block" if block else "inline")
    translator.body.append(f'<div class="math">{markup}</div>' if block else markup)
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register what is this site's own."""
    app.connect("builder-inited", write_api)
    app.connect("source-read", add_menu)
    app.connect("autodoc-process-docstring", read_docstring)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
