"""Builds the documentation site from docs/, without a network: ./tw docs

    python docs/site/build.py            # build/documentation/site/index.html
    python docs/site/build.py --source   # only the pages that it is built from

What the pages of docs/ lack is added from the code: references of the commands and of the Python
API. Code blocks that no test runs are marked so. Links out of docs/ lead to copies of the files.
Ends with 1 where a link leads nowhere or a page would fetch something from the network.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

SOURCE = ROOT / "build" / "documentation"
SITE = SOURCE / "site"
FILES = "repository"
"""Where copies of files outside of docs/ are."""

NAV: dict[str, list[str]] = {
    "Start": ["index.md", "install.md", "tutorial*.md", "glossary.md"],
    "Guides": [
        *(
            "feedback.md",
            "tolerance.md",
            "llm.md",
            "agents.md",
            "templates.md",
            "tune.md",
            "serve.md",
        ),
        *("report.md", "experiments.md", "reuse.md", "cluster.md", "storage.md", "targets.md"),
        "new-target.md",
    ],
    "Targets": ["targets/*.md"],
    "Reference": ["reference/commands.md", "reference/api.md", "cli.md", "python.md"],
    "How it works": [
        *("architecture.md", "search.md", "trust.md", "timing.md", "rewriter.md", "tuner.md"),
        "tests.md",
    ],
    "Results": ["results/*.md"],
    "Decisions": ["adr/*.md"],
}
RUN_BY_TESTS = {
    "new-target.md": {"toml", "python", "text", "sh"},
    "python.md": {"python"},
    **{page.name: {"sh"} for page in DOCS.glob("tutorial*.md")},
}
"""Pages, and the languages of their code blocks that tests run."""
NOT_RUN = '<p class="not-run">No test runs this block.</p>'
STYLE = """\
.not-run { margin: -0.8em 0 1.2em; font-size: .65rem; opacity: .75; }
/* The colours of the current page in the navigation and of labels have too little contrast. */
.doc-label, .doc-label code { color: var(--md-default-fg-color) !important; opacity: 1 !important; }
[data-md-color-scheme=default] .md-nav__link--active { color: #3a50d9 !important; }
[data-md-color-scheme=slate] .md-nav__link--active { color: #8c9dff !important; }
"""
SCRIPT = """\
// Wide tables can be scrolled with the keyboard. The theme wraps them when the page is there.
new MutationObserver(() => {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])"))
    wide.tabIndex = 0;
}).observe(document.documentElement, { childList: true, subtree: true });
"""
_LINE_ANCHOR = re.compile(r'<a id="[^"]*__codelineno-[^>]*></a>')
_BLOCK = re.compile(r"^(```+)([^\n`]*)\n(.*?)^\1[ ]*$", re.M | re.S)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def main() -> int:
    """Build, check, and say where the site is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", action="store_true", help="write the pages only")
    only_source = parser.parse_args().source
    write_source(SOURCE)
    if only_source:
        print(SOURCE)
        return 0
    shutil.rmtree(SITE, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--clean",
        "--config-file",
        "zensical.toml",
    ]
    if subprocess.run(command, cwd=SOURCE).returncode:
        return 1
    for file in SITE.rglob("*.html"):  # links without a name, one for each line of code
        file.write_text(_LINE_ANCHOR.sub("", file.read_text()))
    faults = [*dead_links(SITE), *quoted_doctests(SITE)]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{SITE / 'index.html'}: {len(list(SITE.rglob('*.html')))} pages, {len(faults)} faults")
    return 1 if faults else 0


def write_source(folder: Path) -> None:
    """The pages and the configuration, made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    copies: set[Path] = set()
    for file in sorted(DOCS.rglob("*")):
        relative = file.relative_to(DOCS)
        if relative.parts[0] == "site" or not file.is_file():
            continue
        target = pages / (Path("index.md") if str(relative) == "README.md" else relative)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            target.write_text(page(file, copies))
        else:
            shutil.copyfile(file, target)
    for inner in (path for path in sorted(pages.rglob("*")) if path.is_dir()):
        listed = sorted(f.name for f in inner.iterdir() if f.name != "index.md")
        lines = [f"# {inner.name}", "", *(f"- [{name}]({name})" for name in listed), ""]
        (inner / "index.md").write_text("\n".join(lines))
    for file in sorted(copies):
        target = pages / FILES / copy_name(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    reference = pages / "reference"
    reference.mkdir()
    (reference / "commands.md").write_text(commands())
    (reference / "api.md").write_text(api())
    (pages / "site.css").write_text(STYLE)
    (pages / "site.js").write_text(SCRIPT)
    (folder / "zensical.toml").write_text(configuration(pages))


def page(file: Path, copies: set[Path]) -> str:
    """A page of docs/ with its links and code blocks as the site needs them."""
    name = str(file.relative_to(DOCS))
    depth = len(file.relative_to(DOCS).parts) - 1

    def link(match: re.Match[str]) -> str:
        address, mark, anchor = match[2].partition("#")
        target = (file.parent / address).resolve() if address else file
        if "://" in match[2] or address.startswith("mailto:") or not target.exists():
            return match[0]
        if target == DOCS / "README.md":
            return f"{match[1]}{'../' * depth}index.md{mark}{anchor}{match[3]}"
        if target.is_relative_to(DOCS):
            listing = "/index.md" if target.is_dir() else ""
            return f"{match[1]}{address.rstrip('/')}{listing}{mark}{anchor}{match[3]}"
        copies.add(target)
        return f"{match[1]}{'../' * depth}{FILES}/{copy_name(target)}{match[3]}"

    def block(match: re.Match[str]) -> str:
        language = match[2].partition(" ")[0].strip()  # a title may follow
        run = language in RUN_BY_TESTS.get(name, set())
        return match[0] if run else f"{match[0]}\n\n{NOT_RUN}\n"

    parts: list[str] = []
    at = 0
    text = file.read_text()
    for found in _BLOCK.finditer(text):
        parts += [_LINK.sub(link, text[at : found.start()]), block(found)]
        at = found.end()
    return "".join([*parts, _LINK.sub(link, text[at:])])


def copy_name(file: Path) -> str:
    """Of a file outside of docs/: a text, so that a browser shows it."""
    name = str(file.relative_to(ROOT))
    return name if file.suffix in (".png", ".json", ".ipynb") else f"{name}.txt"


def commands() -> str:
    """Every command with its arguments and options, as `--help` tells them."""
    import typer.main

    from tilewright.cli.main import app

    lines = ["# Commands", "", "What `tilewright COMMAND --help` says, of every command.", ""]
    for name, command in sorted(_commands(typer.main.get_command(app))):
        lines += [f"## tilewright {name}", "", _plain(command.help or ""), ""]
        rows = [(_usage(p), _plain(getattr(p, "help", "") or "")) for p in command.params]
        if rows:
            lines += ["| | |", "|---|---|", *(f"| {usage} | {text} |" for usage, text in rows), ""]
    return "\n".join(lines) + "\n"


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def _usage(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{(parameter.metavar or parameter.name or '').strip()}`".replace("|", "\\|")
    names = ", ".join((*parameter.opts, *parameter.secondary_opts))
    value = "" if getattr(parameter, "is_flag", False) else f" {parameter.metavar or 'VALUE'}"
    return f"`{names}{value}`".replace("|", "\\|")


def _plain(text: str) -> str:
    return " ".join(text.replace("\b", "").split()).replace("|", "\\|").replace("<", "&lt;")


def api() -> str:
    """The names of `import tilewright`, for mkdocstrings to describe."""
    import tilewright

    names = sorted(n for n in tilewright.__all__ if n not in ("__version__", "events"))
    lines = [
        "# Python API",
        "",
        "The public names of `import tilewright as tw`. [How to use them](../python.md).",
        "",
    ]
    for name in names:
        found = getattr(tilewright, name)
        where = f"{found.__module__}.{found.__qualname__}"
        lines += [
            f"## {name}",
            "",
            f"::: {where}",
            "    options:",
            "      show_root_heading: false",
            "",
        ]
    return "\n".join(lines)


def configuration(pages: Path) -> str:
    """The site's `zensical.toml`. No font and no script comes from elsewhere."""
    nav = []
    for title, patterns in NAV.items():
        found = [f for p in patterns for f in sorted(pages.glob(p))]
        if found:
            listed = ", ".join(json.dumps(str(f.relative_to(pages))) for f in found)
            nav.append(f"  {{ {json.dumps(title)} = [{listed}] }},")
    return "\n".join(
        [
            "[project]",
            'site_name = "tilewright"',
            'docs_dir = "pages"',
            'site_dir = "site"',
            "use_directory_urls = false",
            'extra_css = ["site.css"]',
            'extra_javascript = ["site.js"]',
            "nav = [",
            *nav,
            "]",
            "[project.theme]",
            "font = false",
            'features = ["navigation.sections", "content.code.copy", "navigation.top"]',
            "[[project.theme.palette]]",
            'media = "(prefers-color-scheme: light)"',
            'scheme = "default"',
            "[[project.theme.palette]]",
            'media = "(prefers-color-scheme: dark)"',
            'scheme = "slate"',
            "[project.plugins.mkdocstrings.handlers.python]",
            f"paths = [{json.dumps(str(ROOT / 'src'))}]",
            "[project.plugins.mkdocstrings.handlers.python.options]",
            "show_source = false",
            "show_bases = false",
            "heading_level = 3",
            f"extensions = [{json.dumps(str(ROOT / 'docs/site/doctests.py'))}]",
            "",
        ]
    )


class _Page(HTMLParser):
    """The ids of a page, where it leads, and what it fetches."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag names."""
        given = dict(attrs)
        self.ids.update(v for k in ("id", "name") if (v := given.get(k)))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        source = given.get("src") or (given.get("href") if tag == "link" else None)
        if source and given.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(source)


def quoted_doctests(site: Path) -> Iterator[str]:
    """Every page on which a line that begins with >>> became a quotation."""
    for file in sorted(site.rglob("*.html")):
        if re.search(r"(<blockquote>\s*){3}", file.read_text()):
            yield f"{file.relative_to(site)} shows a doctest as a quotation"


def dead_links(site: Path) -> Iterator[str]:
    """Every link of the site's pages to what it does not have, and every fetch from elsewhere."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        pages[file] = read = _Page()
        read.feed(file.read_text())
    for file, read in pages.items():
        where = file.relative_to(site)
        for address in read.fetched:
            if urlsplit(address).netloc:
                yield f"{where} fetches {address} from the network"
        for address in (*read.links, *read.fetched):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or address.startswith("data:"):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if where.name == "404.html":  # its addresses are those of the site's root
                continue
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{where} leads to {address}, which is not there"
            elif parts.fragment and target in pages:
                wanted = unquote(parts.fragment)
                if not wanted.startswith("__") and wanted not in pages[target].ids:
                    yield f"{where} leads to {address}, a place that its page does not have"


if __name__ == "__main__":
    raise SystemExit(main())
