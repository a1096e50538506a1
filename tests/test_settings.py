"""Settings from a file and the environment: read once, checked, and wrong ones said in a sentence."""

import pytest

from specviz import settings
from specviz.settings import Settings, SettingsError, read


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No settings but those of the test."""
    import os

    for name in [n for n in os.environ if n.startswith("SPECVIZ_") and n != "SPECVIZ_HOME"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_file_or_variables_everything_is_at_its_default():
    assert read() == Settings.model_construct()


def test_a_file_is_read_and_the_environment_is_stronger(alone, monkeypatch):
    (alone / "specviz.toml").write_text('max_k = 8\nread_only = true\nallowed_models = ["a/b", "/models"]\n')
    monkeypatch.setenv("SPECVIZ_MAX_K", "9")
    held = read()
    assert (held.max_k, held.read_only, held.allowed_models) == (9, True, ("a/b", "/models"))


def test_the_file_may_lie_elsewhere(alone, monkeypatch):
    path = alone / "other.toml"
    monkeypatch.setenv("SPECVIZ_CONFIG", str(path))
    with pytest.raises(SettingsError, match="no such file"):
        read()
    path.write_text("threads = 3")
    assert read().threads == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_k = 0", "max_k in specviz.toml is 0: input should be greater than or equal to 1"),
        ("max_k = 'many'", "max_k in specviz.toml is 'many'"),
        ("colour = 'red'", "specviz.toml sets 'colour', which is no setting"),
        ("max_k =", "cannot be read"),
        ("max_k = 0\nthreads = -1", "max_k .*; threads "),
    ],
)
def test_a_wrong_file_is_named_with_what_would_do(alone, text, said):
    (alone / "specviz.toml").write_text(text)
    with pytest.raises(SettingsError, match=said):
        read()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SPECVIZ_MAX_K", "abc", "max_k in SPECVIZ_MAX_K is 'abc'"),
        ("SPECVIZ_MAXK", "4", "SPECVIZ_MAXK is no setting; there are .*SPECVIZ_MAX_K"),
        ("SPECVIZ_ALLOWED_MODELS", "[", "allowed_models in SPECVIZ_ALLOWED_MODELS is '\\['"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch, name, value, said):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=said):
        read()


def test_settings_cannot_be_changed_while_the_server_runs():
    with pytest.raises(ValueError, match="frozen"):
        settings.Settings().max_k = 3
