"""What whoever runs SpecViz may decide, in one place: a file, or the environment, or both.

Read once, when it is first asked for. `specviz.toml` in the folder where the server starts, or the file
that $SPECVIZ_CONFIG names; a variable SPECVIZ_NAME (upper case) of the environment is stronger than the
file. `python -m specviz doctor` prints what is in force.
"""

import os
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

FILE = "specviz.toml"
PREFIX = "SPECVIZ_"
# What the environment may hold beside settings.
OTHER_VARIABLES = {"SPECVIZ_CONFIG", "SPECVIZ_HOME", "SPECVIZ_SERVED_KEY"}


class SettingsError(ValueError):
    """A setting that cannot be used: names it, where it stands, and what would do."""


class Settings(BaseSettings):
    """Every setting with its default. Sizes are in MiB, lengths in what the name says."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    target: str = Field("built-in", description="target of the pair that is loaded at a warm start or pinned")
    draft: str = Field("", description="draft of that pair; empty: the target's own")
    pinned: bool = Field(False, description="visitors cannot choose other models than these two")
    allowed_models: tuple[str, ...] | None = Field(
        None,
        description="hub ids and folders that visitors may load, beside the built-in pair; a folder allows "
        "what lies in it. Unset: anything, but only while the server is reachable from this machine alone",
    )
    read_only: bool = Field(False, description="recordings only: nothing is loaded and nothing runs")
    warm_start: bool = Field(False, description="load the pair before the first visitor comes")
    max_new_tokens: Annotated[int, Field(ge=1, le=100_000)] = Field(1024, description="of a run")
    max_k: Annotated[int, Field(ge=1, le=64)] = Field(16, description="draft tokens a round")
    max_prompt: Annotated[int, Field(ge=1, le=1_000_000)] = Field(8000, description="characters of a prompt")
    kept_runs: Annotated[int, Field(ge=64, le=1_000_000)] = Field(
        512, description="MiB of runs (caches, rows, traces) that the server keeps for all visitors"
    )
    saved_runs: Path | None = Field(
        None, description="folder that runs are written to when the server ends, and read from when it starts"
    )
    kept_rows: Annotated[int, Field(ge=64, le=1_000_000)] = Field(
        768, description="MiB of logits that the checks keep for all visitors"
    )
    kept_pairs: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        0, description="MiB of models that the server keeps loaded; 0: half of what the device has"
    )
    sessions: Annotated[int, Field(ge=1, le=10_000)] = Field(200, description="visitors at once")
    threads: Annotated[int, Field(ge=0, le=1024)] = Field(
        0, description="of torch; 0: what measures best on a machine that has other work too"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, config_file())


def config_file() -> Path:
    """The file that is read if it is there."""
    return Path(os.environ.get("SPECVIZ_CONFIG", FILE))


def read() -> Settings:
    """The settings in force.

    Raises:
        SettingsError: naming every setting that is wrong and why.
    """
    if "SPECVIZ_CONFIG" in os.environ and not config_file().is_file():
        raise SettingsError(f"SPECVIZ_CONFIG names {config_file()}, and there is no such file")
    known = {PREFIX + name.upper() for name in Settings.model_fields} | OTHER_VARIABLES
    strange = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    if strange:
        raise SettingsError(f"{strange[0]} is no setting; there are {', '.join(sorted(known))}")
    try:
        return Settings()
    except ValidationError as error:
        raise SettingsError("; ".join(_said(part) for part in error.errors())) from error
    except (OSError, ValueError) as error:  # the file cannot be read, or a value is no JSON
        raise SettingsError(f"the settings cannot be read: {error}") from error


def _said(error) -> str:
    """One problem of a validation as a sentence."""
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{config_file()} sets {name!r}, which is no setting"
    variable = PREFIX + name.split(".")[0].upper()
    where = variable if variable in os.environ else str(config_file())
    return f"{name} in {where} is {error['input']!r}: {error['msg'][:1].lower()}{error['msg'][1:]}"


@cache
def settings() -> Settings:
    """The settings, read once."""
    return read()
