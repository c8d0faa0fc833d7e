"""Names of models, as users write them.

    openai/gpt-5.5
    openai/llama-4@http://127.0.0.1:8000/v1?key_env=VLLM_KEY
    anthropic/claude-sonnet-5?max_tokens=20000&temperature=0.7
    google/gemini-4-argon
    bedrock/us.anthropic.claude-sonnet-5-v1:0
    command:claude -p
    mailbox:/tmp/questions

The name identifies the model in plans, call logs and reports, so it never contains a secret. Keys
are read from environment variables.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.core.secrets import is_secret_name

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "bedrock": (),  # boto3 finds its own credentials
}
"""Providers with a network address, and the variables that may contain their key, in order of
precedence.
"""

LOCAL = ("command", "mailbox")

ASSUMED_REPLY_TOKENS = 16000
"""Number of tokens that are reserved for a reply if the model's options do not set `max_tokens`."""

DEFAULT_LIMITS: Mapping[str, int] = {"anthropic": 32000}
"""Providers whose protocol requires a limit, with the limit that is sent by default."""


def public_name(name: str) -> str:
    """A model's name without the parts that belong to one machine: commands, folders, addresses and
    options.
    """
    provider = name.partition(":")[0]
    return provider if provider in (*LOCAL, "agent") else name.partition("?")[0].partition("@")[0]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a model. Options that are None are not sent.

    Attributes:
        temperature: sampling temperature.
        reasoning_effort: sent unchanged ("low", "medium", "high").
        max_tokens: maximum number of tokens of a reply, including reasoning.
        key_env: environment variable with the key, instead of the provider's usual one.
        json: whether JSON objects are requested from the provider.
        tools: whether tools are called through the provider's protocol instead of in plain text.
        price: "INPUT:OUTPUT" in US dollars per million tokens, instead of the price table's.
        timeout_s: seconds after which an attempt is abandoned.
        concurrency: number of calls to this model at the same time.
    """

    temperature: float | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    key_env: str | None = None
    json: bool = False
    tools: bool = True
    price: str | None = None
    timeout_s: float = 600.0
    concurrency: int = 8


@dataclass(frozen=True, slots=True)
class Model:
    """A parsed model name. `target` is the model's name at its provider, the command or folder."""

    name: str
    provider: str
    target: str
    base_url: str | None = None
    options: Options = Options()

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables that may contain the key; empty if no key is sent.

        The provider's usual key is sent only to the provider's own address.
        """
        if self.options.key_env:
            return (self.options.key_env,)
        return () if self.base_url else KEY_VARIABLES.get(self.provider, ())

    @property
    def calls_tools(self) -> bool:
        """Whether tools are offered through the provider's protocol, which is never the case for
        commands and folders.
        """
        return self.provider not in LOCAL and self.options.tools

    @property
    def on_this_machine(self) -> bool:
        """Whether the address belongs to this machine, for which the prices of providers do not
        apply.
        """
        host = urlsplit(self.base_url or "").hostname or ""
        return host in ("localhost", "::1") or host.startswith("127.")

    @property
    def reply_tokens(self) -> int:
        """The maximum number of tokens that a reply is expected to have, which is the limit that is
        sent, or an assumption.
        """
        limit = DEFAULT_LIMITS.get(self.provider, ASSUMED_REPLY_TOKENS)
        return self.options.max_tokens or limit


def is_model_name(name: str) -> bool:
    """Whether the name of a proposer has the form of a model's name."""
    return "/" in name or ":" in name


def parse_model(name: str) -> Model:
    """The model a user named; `ConfigurationError` or `UnknownNameError` says what is wrong."""
    kind, colon, rest = name.partition(":")
    if colon and kind in LOCAL:
        return _local(name, kind, rest)
    provider, slash, rest = name.partition("/")
    if provider not in KEY_VARIABLES:
        known = [f"{p}/" for p in KEY_VARIABLES] + [f"{p}:" for p in LOCAL]
        hint = "A model is written PROVIDER/MODEL, command:PROGRAM or mailbox:FOLDER."
        raise UnknownNameError("model provider", f"{provider}{slash}", known, hint)
    rest, _, query = rest.partition("?")
    target, at, base_url = rest.partition("@http")
    if not target:
        raise ConfigurationError(f"model {name!r} names no model. Write {provider}/MODEL.")
    address = _checked_url(name, f"http{base_url}") if at else None
    return Model(name, provider, target, address, _options(name, query))


def _local(name: str, kind: str, rest: str) -> Model:
    rest, _, query = rest.partition("?")
    if not rest.strip():
        what = "PROGRAM ARGUMENTS" if kind == "command" else "FOLDER"
        raise ConfigurationError(f"model {name!r} is incomplete. Write {kind}:{what}.")
    if kind == "command":
        try:
            shlex.split(rest)
        except ValueError as error:
            raise ConfigurationError(
                f"model {name!r} is not a usable command ({error}). Check its quotes."
            ) from error
    return Model(name, kind, rest, None, _options(name, query))


def _checked_url(name: str, url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname:
        raise ConfigurationError(
            f"model {name!r} has no usable address. Write PROVIDER/MODEL@http://HOST:PORT/v1."
        )
    if parts.username or parts.password:
        raise ConfigurationError(
            f"the address of model {parts.hostname!r} contains a password, which would be stored "
            "with the run. Put the key into an environment variable and add ?key_env=VARIABLE."
        )
    return url


def _options(name: str, query: str) -> Options:
    known = {f.name: str(f.type) for f in dataclasses.fields(Options)}
    values: dict[str, object] = {}
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            raise UnknownNameError("model option", key, known, f"It was given in {name!r}.")
        try:
            values[key] = _value(known[key], text)
        except ValueError:
            raise ConfigurationError(
                f"option {key}={text} of model {name!r} is not usable. Give {known[key]}."
            ) from None
    options = Options(**values)  # type: ignore[arg-type]
    if options.key_env and not is_secret_name(options.key_env):
        raise ConfigurationError(
            f"key_env={options.key_env} of model {name!r} does not look like a secret. Use a "
            "variable with KEY, TOKEN or SECRET in its name, so that no child process gets it."
        )
    if options.concurrency < 1 or options.timeout_s <= 0 or options.max_tokens == 0:
        raise ConfigurationError(f"model {name!r} has an option that is 0. Give numbers above 0.")
    return options


_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _value(kind: str, text: str) -> object:
    """The option's value; `ValueError` if the text is not a value of this kind."""
    if kind.startswith("str"):
        if not text:
            raise ValueError(text)
        return text
    if kind.startswith("bool"):
        if text.lower() not in _TRUTH:
            raise ValueError(text)
        return _TRUTH[text.lower()]
    number = int(text) if kind.startswith("int") else float(text)
    if not 0 <= number < float("inf"):
        raise ValueError(text)
    return number
