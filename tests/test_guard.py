"""A server does for its visitors what whoever runs it allows, and says so otherwise."""

from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from specviz import settings as module
from specviz.models.errors import LoadError
from specviz.recipe import DEFAULT, Recipe, checked, limits
from specviz.settings import Settings
from specviz.ui.state import guard, owner, pairs

ROOT = Path(__file__).parent.parent


@pytest.fixture
def given(monkeypatch):
    """Puts settings in force."""

    def give(**values):
        held = Settings(**values)
        module.settings.cache_clear()
        monkeypatch.setattr(module, "read", lambda: held)
        assert module.settings() is held

    yield give
    module.settings.cache_clear()


@pytest.fixture
def reachable(monkeypatch):
    """A server that other machines can reach."""
    monkeypatch.setattr(guard, "exposed", lambda: True)


def test_alone_anything_may_be_loaded(given):
    given()
    assert guard.refusal(Recipe(target="someone/model", draft="/any/folder")) == ""


def test_others_may_load_the_built_in_pair_and_what_is_named(given, reachable, tmp_path):
    given()
    assert guard.refusal(DEFAULT) == ""
    assert "SPECVIZ_ALLOWED_MODELS" in guard.refusal(Recipe(target="someone/model"))
    given(allowed_models=("someone/model",))
    assert guard.refusal(Recipe(target="someone/model", draft="built-in")) == ""
    assert "'other/model'" in guard.refusal(Recipe(target="someone/model", draft="other/model"))


def test_a_folder_allows_what_lies_in_it_and_nothing_beside_it(given, tmp_path):
    models, beside = tmp_path / "models", tmp_path / "models-of-mine"
    for folder in (models / "a", beside):
        folder.mkdir(parents=True)
    (models / "way-out").symlink_to(beside)
    given(allowed_models=(str(models),))
    assert guard.refusal(Recipe(target=str(models / "a"))) == ""
    for outside in (beside, models / "way-out", models / ".." / "models-of-mine", models / "not-there"):
        assert "not among the models" in guard.refusal(Recipe(target=str(outside)))


def test_a_pinned_pair_is_the_only_one(given):
    given(pinned=True, target="a/b", draft="c/d")
    assert guard.refusal(Recipe(target="a/b", draft="c/d")) == ""
    assert "a/b and c/d" in guard.refusal(DEFAULT)


def test_nothing_runs_on_a_server_that_only_shows(given):
    given(read_only=True)
    with pytest.raises(LoadError, match="recordings only"):
        pairs.load(DEFAULT, lambda progress: None)


def test_limits_are_those_of_the_settings(given):
    given(max_k=3, max_new_tokens=7, max_prompt=10)
    assert (limits("k"), limits("max_tokens")) == ((0, 3), (1, 7))
    assert checked("k", 9)[0] == 3
    assert checked("prompt", "eleven char") == (DEFAULT.prompt, "has 11 characters, and at most 10 are taken")


def page(**query):
    at = AppTest.from_file(ROOT / "app.py", default_timeout=30)
    at.query_params.update(query)
    return at.run()


def test_the_page_says_that_recordings_are_all_there_is(given):
    given(read_only=True)
    at = page()
    assert not at.exception and not at.error
    assert any("recordings only" in caption.value for caption in at.caption)
    assert at.button(key="run_toggle").disabled


def test_a_link_to_models_that_are_not_allowed_is_refused_as_text(given, reachable):
    given()
    at = page(target="[x](http://evil)")
    assert any("'[x](http://evil)' is not loaded here" in text.value for text in at.text)
    assert not any("evil" in error.value for error in at.error)
    assert at.button(key="run_toggle").disabled


def test_a_pinned_pair_is_what_a_page_runs_whatever_the_link_says(given):
    given(pinned=True)
    at = page(target="someone/model")
    assert not at.error and not at.button(key="run_toggle").disabled


def test_a_full_server_says_so(given, monkeypatch):
    given(sessions=2)
    monkeypatch.setattr(owner, "visitors", lambda: 3)
    at = page()
    assert "2 visitors at once" in at.info[0].value and not at.button


def test_who_has_left_is_not_remembered(monkeypatch):
    here, now = {"one"}, monotonic()
    monkeypatch.setattr(owner, "exists", lambda: True)
    monkeypatch.setattr(owner, "get_instance", lambda: SimpleNamespace(is_active_session=here.__contains__))
    monkeypatch.setattr(owner, "_sessions", {"a": {"one", "two"}, "b": {"three"}, "c": {"four"}})
    monkeypatch.setattr(owner, "_seen", dict(zip("abc", (now, now - 2 * owner.AWAY, now), strict=True)))
    assert owner.visitors() == 1
    assert owner._sessions == {"a": {"one"}, "c": set()} and set(owner._seen) == {"a", "c"}  # c may come back
