"""The components' JavaScript as the browser gets it: one module, put together from those in the folders."""

import re
from pathlib import Path

import pytest

from specviz.ui.components.script import script

COMPONENTS = Path(__file__).parents[1] / "specviz" / "ui" / "components"


@pytest.fixture
def modules(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "leaf.js").write_text("export const leaf = 1;\n")
    (tmp_path / "left.js").write_text(
        'import { leaf } from "./deep/leaf.js";\n\nexport const left = () => leaf;\n'
    )
    (tmp_path / "entry.js").write_text(
        'import { leaf } from "./deep/leaf.js";\nimport { left } from "./left.js";\n\n'
        "export default () => left() + leaf;\n"
    )
    return tmp_path


def test_every_module_comes_once_and_before_those_that_need_it(modules):
    made = script(modules / "entry.js")
    assert made.count("const leaf") == 1
    assert made.index("const leaf") < made.index("const left") < made.index("export default")
    assert "import" not in made and made.count("export") == 1


@pytest.mark.parametrize("component", ["timeline", "blocks", "strips", "ordering", "memory"])
def test_no_two_parts_of_a_component_share_a_name(component):
    made = script(COMPONENTS / component / f"{component}.js")
    names = re.findall(r"^(?:const|let|function|class|async function) (\w+)", made, re.MULTILINE)
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    assert not re.search(r"^import\b", made, re.MULTILINE)
    assert len(re.findall(r"^export\b", made, re.MULTILINE)) == 1


def test_modules_stay_small():
    for path in COMPONENTS.glob("*/*.js"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 310, path.name
