"""The console as files: what a browser needs to run it, and what it must never hold. What it does is tested in one: tests/faces/console."""

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

from legato.server.static import KINDS, PAGE_POLICY, Static

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "src" / "legato" / "server" / "console"
FILES = sorted(path for path in CONSOLE.rglob("*") if path.is_file())
VENDORED = CONSOLE / "vendored"
OURS = [path for path in FILES if path.parent != VENDORED]
SCRIPTS = [path for path in OURS if path.suffix == ".js"]
STYLES = [path for path in FILES if path.suffix == ".css"]
NAMESPACE = "http://www.w3.org/2000/svg"  # a name, and not an address that anybody asks


def named(path: Path) -> str:
    return path.relative_to(CONSOLE).as_posix()


def code(script: Path) -> str:
    """A script without its comments."""
    return re.sub(r"^\s*(//|\*|/\*).*$|(?<=[;{}),]) //.*$", "", script.read_text(), flags=re.M)


IMPORT = re.compile(r'^(?:import|export) (?:[^"]*? from )?"([^"]+)";', re.M)
EXPORT = re.compile(r"^export (?:async )?(?:function|class|const|let) (\w+)", re.M)


class Page(HTMLParser):
    """What a page loads, and what in it would be run or styled without being a file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.inline: list[str] = []
        self.ids: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._open.append(tag)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.loads += [value for name, value in attrs if name == "src" and value]
        self.loads += [given["href"] or ""] if tag == "link" else []
        self.inline += [f"{tag} {name}" for name in given if name == "style" or name.startswith("on")]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)


PAGE = Page((CONSOLE / "index.html").read_text())


def test_all_files_are_of_kinds_that_the_server_serves_and_each_is_served_under_its_name() -> None:
    assert {path.suffix for path in FILES} <= set(KINDS)
    served = {route.path for route in Static().routes() if isinstance(route, Route)}
    assert served == {"/", *(f"/console/{named(path)}" for path in FILES if path.name != "index.html")}


def test_the_page_has_no_script_and_no_style_in_it_and_loads_its_own_files_only() -> None:
    assert PAGE.inline == []
    assert PAGE.loads
    for each in PAGE.loads:
        assert (CONSOLE / each.removeprefix("console/")).is_file(), each
    assert len(set(PAGE.ids)) == len(PAGE.ids)
    assert "unsafe" not in PAGE_POLICY


def test_every_script_and_style_sheet_is_reached_from_the_page() -> None:
    reached: set[Path] = set()
    waiting = [CONSOLE / each.removeprefix("console/") for each in PAGE.loads]
    while waiting:
        path = waiting.pop().resolve()
        if path not in reached:
            reached.add(path)
            waiting += [path.parent / each for each in IMPORT.findall(path.read_text())] if path.suffix == ".js" else []
    known = [*SCRIPTS, *STYLES, *VENDORED.glob("*.js")]
    assert {named(path) for path in known} == {named(path) for path in reached if path.suffix in (".js", ".css")}


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_what_a_script_imports_is_there(script: Path) -> None:
    text = script.read_text()
    for names, source in re.findall(r'^import \{([^}]*)\} from "([^"]+)";', text, re.M):
        assert source.startswith("."), f"{source} is not ours"
        exporting = (script.parent / source).read_text()
        there = {*EXPORT.findall(exporting), *re.findall(r"\w+ as (\w+)", exporting.rpartition("export{")[2])}
        assert {name.strip() for name in names.split(",") if name.strip()} <= there, source
    assert len(re.findall(r"^import ", text, re.M)) == len(IMPORT.findall(text)), "only whole modules of ours, at the top"


HARMFUL = {
    "markup from a text": r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|setHTML|DOMParser|document\.write|srcdoc",
    "a program from a text": r"\beval\b|new Function|setTimeout\(\s*[\"'`]|setInterval\(\s*[\"'`]|javascript:|importScripts",
    "a style that the page's policy forbids": r"setAttribute\(\s*[\"']style|cssText|\bstyle:",
    "a token where others see it": r"document\.cookie|localStorage[^;]*token|[?&]token=",
    "a word for developers": r"console\.(log|warn|error|debug)|debugger|\balert\(",
}


@pytest.mark.parametrize("what", HARMFUL)
@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_no_script_makes(script: Path, what: str) -> None:
    assert not re.search(HARMFUL[what], code(script)), what


SEEDED = {
    "markup from a text": "made.innerHTML = said;",
    "a program from a text": "setTimeout('go()', 5);",
    "a style that the page's policy forbids": 'made.setAttribute("style", given);',
    "a token where others see it": "fetch(`api?token=${token}`);",
    "a word for developers": "  console.log(fact);",
}


@pytest.mark.parametrize("what", HARMFUL)
def test_whoever_looks_for_it_finds(what: str, tmp_path: Path) -> None:
    (tmp_path / "seeded.js").write_text(f"/** innerHTML in a comment is none. */\n{SEEDED[what]} // and why\n")
    assert re.search(HARMFUL[what], code(tmp_path / "seeded.js"))
    assert [name for name, pattern in HARMFUL.items() if re.search(pattern, code(tmp_path / "seeded.js"))] == [what]


@pytest.mark.parametrize("path", OURS, ids=named)
def test_no_file_names_an_address_elsewhere(path: Path) -> None:
    text = path.read_text().replace(NAMESPACE, "")
    assert not re.search(r"(?:https?:)?//[a-z0-9-]+\.[a-z]|url\(|@import", text)


@pytest.mark.parametrize("style", STYLES, ids=named)
def test_a_style_sheet_is_whole(style: Path) -> None:
    text = re.sub(r"/\*.*?\*/", "", style.read_text(), flags=re.S)
    assert text.count("{") == text.count("}")
    assert text.count("(") == text.count(")")
    used, known = set(re.findall(r"var\((--[\w-]+)", text)), set(re.findall(r"(--[\w-]+):", "".join(each.read_text() for each in STYLES)))
    assert used <= known


def test_people_who_want_less_motion_or_more_contrast_are_thought_of() -> None:
    text = "".join(style.read_text() for style in STYLES)
    for each in ("prefers-reduced-motion", "color-scheme: light dark", ":focus-visible", "forced-colors"):
        assert each in text


RELEASES = {"marked.js": ("18.2.1", "5371fea86fd0656b4fc7bea7c94c663109d82789b69433eeee78d42895aa44de")}
"""Other people's files, each with its release and the digest of the file in it: `lib/marked.esm.js` of the package on npm."""


def test_vendored_files_are_those_of_their_releases() -> None:
    assert {path.name for path in VENDORED.glob("*.js")} == set(RELEASES)
    for name, (version, digest) in RELEASES.items():
        content = (VENDORED / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        assert f"v{version}" in content.decode()[:100]


def test_only_the_lexer_of_vendored_markdown_is_used() -> None:
    """What makes HTML of Markdown stands in the same file, and nothing of ours may reach it."""
    found = {names for path in SCRIPTS for names in re.findall(r"import \{([^}]*)\} from \"[^\"]*vendored/", path.read_text())}
    assert found == {" Lexer, Tokenizer "}


def test_the_mark_is_a_picture() -> None:
    assert ElementTree.parse(CONSOLE / "mark.svg").getroot().tag == f"{{{NAMESPACE}}}svg"


def test_files_are_short_and_say_what_they_decide() -> None:
    for script in SCRIPTS:
        lines = script.read_text().splitlines()
        assert len(lines) <= 350, f"what is {named(script)} two of?"
        assert max(map(len, lines)) <= 140, named(script)
        if script.parent != CONSOLE:
            assert re.match(r"/\*\* [^\n]+May know: [^\n]+Decides: |/\*\* [^\n]+May know: ", lines[0]), named(script)


def test_the_wheel_has_every_file_of_the_console(tmp_path: Path) -> None:
    built = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    with ZipFile(built) as wheel:
        packed = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("legato/server/console/")}
        licences = [wheel.read(name).decode() for name in wheel.namelist() if "/licenses/" in name]
    assert packed == {f"legato/server/console/{named(path)}": path.read_bytes() for path in FILES}
    assert any("The Legato authors" in text for text in licences)
    assert any("MarkedJS" in text for text in licences)
