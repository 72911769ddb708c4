"""The documents' blocks: each command is run or known not to be, each set passes admission, each picture is one."""

import re
from xml.etree import ElementTree

import pytest
import yaml

from grove.admission.defaults import default_podcliqueset
from grove.admission.validation import validate_podcliqueset
from grove.controllers.config import load
from tests.documents import DOCUMENTS, LANGUAGES, NOT_RUN, ROOT, RUN, RUNS_ON, blocks, commands, lacking, steps

BLOCKS = [block for path in DOCUMENTS.values() for block in blocks(path)]
MANIFESTS = [
    pytest.param(obj, id=f"{block.document}:{block.line}")
    for block in BLOCKS
    if block.language == "yaml"
    for obj in yaml.safe_load_all(block.text.replace("{…}", "{}"))
    if isinstance(obj, dict)
]


def test_every_block_says_what_it_is() -> None:
    assert [block for block in BLOCKS if block.language not in LANGUAGES] == []


def test_every_command_is_run_or_known_not_to_be() -> None:
    """One that is neither has to be put into the tables of `tests/documents.py`, or to be written otherwise."""
    unknown = [
        str(command)
        for command in commands()
        if not re.match(RUN, command.text) and not any(re.fullmatch(pattern, command.text) for pattern in NOT_RUN)
    ]
    assert unknown == []


def test_what_is_known_not_to_be_run_is_on_a_page() -> None:
    typed = [command.text for command in commands()]
    assert [one for one in (*NOT_RUN, *RUNS_ON) if not any(re.fullmatch(one, text) for text in typed)] == []


@pytest.mark.parametrize("obj", MANIFESTS)
def test_objects_are_what_they_say(obj: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> None:
    if obj.get("kind") == "PodCliqueSet":
        result = validate_podcliqueset(default_podcliqueset(obj))
        assert not result.errors
        assert not result.warnings
    elif obj.get("kind") == "OperatorConfiguration":
        file = tmp_path_factory.mktemp("config") / "config.yaml"
        file.write_text(yaml.safe_dump(obj))
        assert load(file).kind == "OperatorConfiguration"


def test_pictures_are_readable_on_light_and_dark() -> None:
    """Text outside of boxes is of a grey that stands out from white and from GitHub's dark, each 3:1 or more (WCAG)."""
    pictures = [*(ROOT / "docs" / "pictures").iterdir()]
    shown = {name for path in DOCUMENTS.values() for name in re.findall(r"pictures/([\w-]+\.svg)", path.read_text())}
    assert {path.name for path in pictures} == shown
    for path in pictures:
        root = ElementTree.parse(path).getroot()  # our own files
        assert root.find("{*}title") is not None
        (outside,) = re.findall(r"\.outside { fill: (#\w+); }", path.read_text())
        assert contrast(outside, "#ffffff") >= 3
        assert contrast(outside, "#0d1117") >= 3


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, by WCAG 2."""

    def luminance(colour: str) -> float:
        shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_output_is_compared_apart_from_what_changes() -> None:
    shown = "NAME AGE\npod/web-0-a-4q2bv   1s\n…\nweb-0  waiting: …, since 3.4 s"
    assert lacking(shown, "x\nNAME    AGE\npod/web-0-a-bcdf2  2m3s\nother\nweb-0 waiting: 3 of 4, since 12 s\n") == ""
    assert lacking(shown, "NAME AGE\npod/web-1-a-bcdf2 2m3s\n") == "pod/web-0-a-4q2bv   1s"
    assert lacking("a\nb", "b\na") == "b"


def test_commands_are_read_as_a_shell_would() -> None:
    (install,) = [c for c in commands() if c.text.startswith("helm install")]
    assert "\\" not in install.text
    assert [s.name for s in steps(DOCUMENTS["README.md"]) if hasattr(s, "name")] == ["llm.yaml"]
