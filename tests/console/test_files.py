"""Static checks of the console's files. Its behaviour is tested in a browser: tests/faces/console."""

from __future__ import annotations

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder
from starlette.routing import Route

from legato.server.console_files import MEDIA_TYPES, PAGE_POLICY, ConsoleFiles

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "src" / "legato" / "server" / "console"
FILES = sorted(path for path in CONSOLE.rglob("*") if path.is_file())
VENDORED = CONSOLE / "vendored"
OWN_FILES = [path for path in FILES if path.parent != VENDORED]
SCRIPTS = [path for path in OWN_FILES if path.suffix == ".js"]
STYLES = [path for path in FILES if path.suffix == ".css"]
SVG_NAMESPACE = "http://www.w3.org/2000/svg"  # a name, not a URL that is requested


def relative_name(path: Path) -> str:
    return path.relative_to(CONSOLE).as_posix()


def strip_comments(script: Path) -> str:
    """Return a script without its comments."""
    return re.sub(r"^\s*(//|\*|/\*).*$|(?<=[;{}),]) //.*$", "", script.read_text(), flags=re.M)


IMPORT_PATTERN = re.compile(r'^(?:import|export) (?:[^"]*? from )?"([^"]+)";', re.M)
EXPORT_PATTERN = re.compile(r"^export (?:async )?(?:function|class|const|let) (\w+)", re.M)


class PageParser(HTMLParser):
    """The files that a page loads, its ids, and its inline scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded_files: list[str] = []
        self.inline: list[str] = []
        self.ids: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._open.append(tag)
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.loaded_files += [value for name, value in attrs if name == "src" and value]
        self.loaded_files += [attributes["href"] or ""] if tag == "link" else []
        self.inline += [f"{tag} {name}" for name in attributes if name == "style" or name.startswith("on")]
        if tag == "style" or (tag == "script" and "src" not in attributes):
            self.inline.append(tag)


PAGE = PageParser((CONSOLE / "index.html").read_text())


def test_each_file_is_served_under_its_name() -> None:
    assert {path.suffix for path in FILES} <= set(MEDIA_TYPES)
    served = {route.path for route in ConsoleFiles().make_routes() if isinstance(route, Route)}
    assert served == {"/", *(f"/console/{relative_name(path)}" for path in FILES if path.name != "index.html")}


def test_page_has_no_inline_code_or_foreign_files() -> None:
    assert PAGE.inline == []
    assert PAGE.loaded_files
    for each in PAGE.loaded_files:
        assert (CONSOLE / each.removeprefix("console/")).is_file(), each
    assert len(set(PAGE.ids)) == len(PAGE.ids)
    assert "unsafe" not in PAGE_POLICY


def test_every_file_is_reachable_from_the_page() -> None:
    reached: set[Path] = set()
    waiting = [CONSOLE / each.removeprefix("console/") for each in PAGE.loaded_files]
    while waiting:
        path = waiting.pop().resolve()
        if path not in reached:
            reached.add(path)
            waiting += [path.parent / each for each in IMPORT_PATTERN.findall(path.read_text())] if path.suffix == ".js" else []
    known = [*SCRIPTS, *STYLES, *VENDORED.glob("*.js")]
    assert {relative_name(path) for path in known} == {relative_name(path) for path in reached if path.suffix in (".js", ".css")}


@pytest.mark.parametrize("script", SCRIPTS, ids=relative_name)
def test_every_imported_name_exists(script: Path) -> None:
    text = script.read_text()
    for names, source in re.findall(r'^import \{([^}]*)\} from "([^"]+)";', text, re.M):
        assert source.startswith("."), f"{source} is not a module of the console"
        exporting = (script.parent / source).read_text()
        there = {*EXPORT_PATTERN.findall(exporting), *re.findall(r"\w+ as (\w+)", exporting.rpartition("export{")[2])}
        assert {name.strip() for name in names.split(",") if name.strip()} <= there, source
    assert len(re.findall(r"^import ", text, re.M)) == len(IMPORT_PATTERN.findall(text)), "imports must be at the top, one per line"


HARMFUL_PATTERNS = {
    "markup from text": r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|setHTML|DOMParser|document\.write|srcdoc",
    "code from text": r"\beval\b|new Function|setTimeout\(\s*[\"'`]|setInterval\(\s*[\"'`]|javascript:|importScripts",
    "inline style, which the page's policy forbids": r"setAttribute\(\s*[\"']style|cssText|\bstyle:",
    "token in a place that others can read": r"document\.cookie|localStorage[^;]*token|[?&]token=",
    "output for developers": r"console\.(log|warn|error|debug)|debugger|\balert\(",
}


@pytest.mark.parametrize("kind", HARMFUL_PATTERNS)
@pytest.mark.parametrize("script", SCRIPTS, ids=relative_name)
def test_scripts_have_no_harmful_code(script: Path, kind: str) -> None:
    assert not re.search(HARMFUL_PATTERNS[kind], strip_comments(script)), kind


SEEDED_CODE = {
    "markup from text": "made.innerHTML = said;",
    "code from text": "setTimeout('go()', 5);",
    "inline style, which the page's policy forbids": 'made.setAttribute("style", given);',
    "token in a place that others can read": "fetch(`api?token=${token}`);",
    "output for developers": "  console.log(fact);",
}


@pytest.mark.parametrize("kind", HARMFUL_PATTERNS)
def test_harmful_code_patterns_find_seeded_code(kind: str, tmp_path: Path) -> None:
    (tmp_path / "seeded.js").write_text(f"/** innerHTML in a comment is none. */\n{SEEDED_CODE[kind]} // and why\n")
    assert re.search(HARMFUL_PATTERNS[kind], strip_comments(tmp_path / "seeded.js"))
    assert [name for name, pattern in HARMFUL_PATTERNS.items() if re.search(pattern, strip_comments(tmp_path / "seeded.js"))] == [kind]


@pytest.mark.parametrize("path", OWN_FILES, ids=relative_name)
def test_no_file_contains_a_foreign_url(path: Path) -> None:
    text = path.read_text().replace(SVG_NAMESPACE, "")
    assert not re.search(r"(?:https?:)?//[a-z0-9-]+\.[a-z]|url\(|@import", text)


@pytest.mark.parametrize("style", STYLES, ids=relative_name)
def test_style_sheet_is_well_formed(style: Path) -> None:
    text = re.sub(r"/\*.*?\*/", "", style.read_text(), flags=re.S)
    assert text.count("{") == text.count("}")
    assert text.count("(") == text.count(")")
    used, known = set(re.findall(r"var\((--[\w-]+)", text)), set(re.findall(r"(--[\w-]+):", "".join(each.read_text() for each in STYLES)))
    assert used <= known


def test_styles_respect_motion_and_contrast_preferences() -> None:
    text = "".join(style.read_text() for style in STYLES)
    for each in ("prefers-reduced-motion", "color-scheme: light dark", ":focus-visible", "forced-colors"):
        assert each in text


VENDORED_RELEASES = {"marked.js": ("18.2.1", "5371fea86fd0656b4fc7bea7c94c663109d82789b69433eeee78d42895aa44de")}
"""Third-party files: the release, and the digest of the file in it (`lib/marked.esm.js` of the npm package)."""


def test_vendored_files_are_those_of_their_releases() -> None:
    assert {path.name for path in VENDORED.glob("*.js")} == set(VENDORED_RELEASES)
    for name, (version, digest) in VENDORED_RELEASES.items():
        content = (VENDORED / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        assert f"v{version}" in content.decode()[:100]


def test_only_the_lexer_of_vendored_markdown_is_used() -> None:
    """The vendored file also has a renderer to HTML, which must not be used."""
    found = {names for path in SCRIPTS for names in re.findall(r"import \{([^}]*)\} from \"[^\"]*vendored/", path.read_text())}
    assert found == {" Lexer, Tokenizer "}


def test_logo_is_valid_svg() -> None:
    assert ElementTree.parse(CONSOLE / "logo.svg").getroot().tag == f"{{{SVG_NAMESPACE}}}svg"


def test_files_are_short_and_described() -> None:
    for script in SCRIPTS:
        lines = script.read_text().splitlines()
        assert len(lines) <= 350, f"{relative_name(script)} is too long: split it"
        assert max(map(len, lines)) <= 140, relative_name(script)
        description = re.match(r"/\*\*? [A-Z].{15,}\.( \*/)?$", lines[0])
        assert description, f"the first line of {relative_name(script)} must describe it in one sentence"


def test_the_wheel_has_every_file_of_the_console(tmp_path: Path) -> None:
    built = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    with ZipFile(built) as wheel:
        packed = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("legato/server/console/")}
        licences = [wheel.read(name).decode() for name in wheel.namelist() if "/licenses/" in name]
    assert packed == {f"legato/server/console/{relative_name(path)}": path.read_bytes() for path in FILES}
    assert any("The Legato authors" in text for text in licences)
    assert any("MarkedJS" in text for text in licences)
