"""Finds the environment variables that contain secrets, and makes an environment without them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(
    r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)|APIKEY"
    r"|^PGPASSWORD$|^TILEWRIGHT_DATABASE$",  # this address may contain a password
    re.I,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable with this name is regarded as secret (OPENAI_API_KEY, HF_TOKEN, ...)."""
    return _SECRET_NAME.search(name) is not None


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for child processes."""
    return {name: value for name, value in environment.items() if not is_secret_name(name)}
