"""Choose a model, a sandbox, tools and platforms, step by step.

Each step has an option, so the command also works without a terminal. It checks the key of a model
before it saves it.
"""

import argparse
import asyncio
from collections.abc import Sequence

from msgspec import Struct

from services.amounts import dollars
from services.cli.admin.login import log_in
from services.cli.admin.setup_answers import Answers, Option, read_secret
from services.cli.admin.setup_platforms import PlatformSetup
from services.cli.command import Command, Context, arg, flag
from services.cli.console import complain, printable, say
from services.cli.first_run import MODEL_CHOICE
from services.cli.startup import imported, keep, run_in_home
from services.config.settings import Settings, load_settings, provider_variables
from services.errors import FailedPrecondition, HermesError, InvalidArgument
from services.runtime.checks import Check, ModelOffer, OfferedModel, Verdict
from services.runtime.logins import PROVIDERS as LOGINS

LOCAL_SERVERS = "agent_service.assembly.setup:local_servers"
OFFERED_MODELS = "agent_service.assembly.setup:offered_models"
WINDOW_OF = "agent_service.assembly.setup:window_of"
SANDBOXES = "executor_service.servicer.checks:checks"

EXAMPLES = """\
examples:
  hermes setup
  hermes setup --provider openrouter --key-file key.txt --model-id anthropic/claude-sonnet-4.5
  hermes setup --provider local --tools lean --no-platforms
  TELEGRAM_BOT_TOKEN_FILE=token.txt hermes setup --platform telegram --users 12345
  hermes setup --provider custom --url https://llm.example.org/v1 --sandbox bubblewrap"""

KEYS = {
    "openrouter": "OpenRouter: models of all makers with one key",
    "openai": "OpenAI, with an API key",
    "anthropic": "Anthropic, with an API key",
}
LOCAL, CUSTOM, AUTO = "local", "custom", "auto"
ISOLATION = {
    "docker": "a container, without network and your files",
    "bubblewrap": "Linux namespaces, without network and your files",
    "singularity": "a container of Apptainer, for clusters",
    "modal": "a machine at Modal, away from yours",
    "kubernetes": "a pod of a cluster",
    "ssh": "another machine, without isolation on it",
    "local": "no isolation: commands run on this machine as you",
}
TOOLS = (
    (AUTO, "automatic: lean if the model has less than 16,000 tokens of context"),
    ("full", "full: all tools; a greeting takes about 6,900 tokens"),
    ("lean", "lean: terminal, files, memory and skills; about 1,300 tokens"),
)
TRIES = 3


class Endpoint(Struct):
    """The chosen model endpoint."""

    provider: str
    base_url: str = ""
    key: str = ""
    models: Sequence[OfferedModel] = ()

    @property
    def key_name(self) -> str:
        return "HERMES_API_KEY" if self.provider == CUSTOM else provider_variables(self.provider)[1]


class Setup:
    """The steps; each saves what was chosen."""

    def __init__(self, given: argparse.Namespace, settings: Settings, answers: Answers) -> None:
        self._given = given
        self._settings = settings
        self._answers = answers
        self.written: list[str] = []

    def _keep(self, key: str, value: str, shown: str | None = None) -> None:
        path = keep(self._settings, key, value)
        self.written.append(f"{key} = {value if shown is None else shown} in {path}")

    def choose_model(self) -> None:
        """Find a provider or server, check its key, and choose one of its models."""
        endpoint = self._endpoint()
        model = self._given.chosen_model or self._pick(endpoint)
        self._keep("model.provider", endpoint.provider)
        if endpoint.base_url or self._settings.yaml.find("model.base_url"):
            self._keep("model.base_url", endpoint.base_url)
        if self._settings.yaml.find("model.api"):
            self._keep("model.api", "")  # of the endpoint before
        if endpoint.key:
            self._keep(endpoint.key_name, endpoint.key, "(your key)")
        self._keep("model.default", model)
        # They would have priority over config.yaml.
        for name in ("HERMES_BASE_URL", "HERMES_MODEL"):
            if name in self._settings.env_file.values:
                self._keep(name, "", "(unset)")
            if self._settings.environ.get(name):
                complain(f"{name} of the environment takes precedence over your choice")
        if endpoint.provider == CUSTOM:
            self._tell_window(endpoint, model)

    def _tell_window(self, endpoint: Endpoint, model: str) -> None:
        tokens = asyncio.run(imported(WINDOW_OF)(endpoint.base_url, endpoint.key, model))
        if tokens:
            say(f"{printable(model)} has {tokens:,} tokens of context there.")

    def _endpoint(self) -> Endpoint:
        servers: Sequence[ModelOffer] = asyncio.run(imported(LOCAL_SERVERS)())
        chosen = self._given.provider or self._provider(servers)
        if chosen == LOCAL:
            if not servers:
                raise FailedPrecondition("no model server runs on this machine's usual ports")
            return self._checked(Endpoint(CUSTOM, servers[0].base_url))
        if chosen.startswith("http"):
            return self._checked(Endpoint(CUSTOM, chosen))
        if chosen in LOGINS:
            login = argparse.Namespace(**{**vars(self._given), "provider": chosen, "json": False})
            context = Context(login)
            run_in_home(context.settings, lambda: log_in(context))
            self._settings = load_settings(vars(self._given))
            return self._checked(Endpoint(chosen))
        url = self._given.url or (self._ask_url() if chosen == CUSTOM else "")
        if chosen == CUSTOM and not url:
            raise InvalidArgument("name the endpoint with --url")
        return self._with_key(Endpoint(chosen, url))

    def _ask_url(self) -> str:
        before = self._before("model.base_url") or ""
        hint = f"Enter for {before}" if before else "such as https://llm.example.org/v1"
        return self._answers.ask(f"Base URL ({hint}):") or before

    def _provider(self, servers: Sequence[ModelOffer]) -> str:
        if self._given.url:
            return CUSTOM
        found = [(one.base_url, f"{one.name} on this machine ({one.base_url})") for one in servers]
        with_key = [name for name in KEYS if self._settings.variable(provider_variables(name)[1])]
        if not self._answers.asks and not (found or with_key):
            raise InvalidArgument("without a terminal, name a provider with --provider")
        options = [
            *found,
            *KEYS.items(),
            *((name, f"{title}, with your subscription") for name, title in LOGINS.items()),
            (CUSTOM, "another endpoint with OpenAI's or Anthropic's API"),
        ]
        before = self._before("model.provider")
        used = [before] if before in dict(options) else []
        default = [*used, *with_key, *(url for url, _ in found), "openrouter"][0]
        return self._answers.choose("Where do your models run?", options, default)

    def _with_key(self, endpoint: Endpoint) -> Endpoint:
        if key := read_secret(self._given.key_file):
            endpoint.key = key
            return self._checked(endpoint)
        found = self._settings.variable(endpoint.key_name)
        saved = str(found.value) if found else ""
        if not self._answers.asks:
            if not found and endpoint.provider != CUSTOM:
                raise InvalidArgument(f"give the key with --key-file, or set {endpoint.key_name}")
            return self._checked(endpoint, saved)
        hint = " (Enter if it needs none)" if endpoint.provider == CUSTOM else ""
        if found:
            hint = f" (Enter keeps {endpoint.key_name}, {found.where})"
        for left in reversed(range(TRIES)):
            endpoint.key = self._answers.ask(f"Key{hint}:", secret=True)
            try:
                return self._checked(endpoint, saved)
            except HermesError as error:
                if not left:
                    raise
                complain(error.message)
        raise AssertionError("the last try returns or raises")

    def _checked(self, endpoint: Endpoint, key: str = "") -> Endpoint:
        asked = imported(OFFERED_MODELS)(
            self._settings, endpoint.provider, endpoint.base_url, endpoint.key or key
        )
        endpoint.models = asyncio.run(asked)
        return endpoint

    def _pick(self, endpoint: Endpoint) -> str:
        if not endpoint.models:
            named = self._answers.ask("It lists no models. Name of the model:")
            if not named:
                raise InvalidArgument("the endpoint lists no models; name one with --model-id")
            return named
        options = [(model.id, _describe(model)) for model in endpoint.models]
        default = self._before("model.default", "model") or ""
        default = default if default in dict(options) else options[0][0]
        return self._answers.choose("Which model?", options, default)

    def _before(self, *keys: str) -> str | None:
        found = next(filter(None, map(self._settings.yaml.find, keys)), None)
        return None if found is None else str(found.value)

    def choose_sandbox(self) -> None:
        chosen = self._given.sandbox
        before = self._before("executor.backend", "terminal.backend") or AUTO
        if chosen is None:
            if not self._answers.asks:
                return
            found: list[Check] = asyncio.run(imported(SANDBOXES)(self._settings))
            working = [one.message.split()[0] for one in found if one.verdict is Verdict.OK]
            for one in found:
                if one.verdict is Verdict.NOTE:
                    say(f"  {printable(one.message)}")
            options: list[Option] = [
                (AUTO, "automatic: Docker if it runs here, else bubblewrap"),
                *((name, f"{name}: {ISOLATION[name]}") for name in working),
            ]
            if before not in dict(options):
                options.append((before, f"{before}, as now"))
            chosen = self._answers.choose("Where do commands run?", options, before)
        if chosen != before:
            self._keep("terminal.backend", "" if chosen == AUTO else chosen)

    def choose_tools(self) -> None:
        before = self._before("tools.preset", "tools")
        before = before if before in dict(TOOLS) else AUTO
        chosen = self._given.tools or self._answers.choose("Which tools?", TOOLS, before)
        if chosen != before:
            self._keep("tools.preset", chosen)

    def choose_platforms(self) -> None:
        if not self._given.no_platforms:
            platforms = PlatformSetup(vars(self._given), self._settings, self._answers, self._keep)
            platforms.run(self._given.chosen_platform, self._given.users)


def _describe(model: OfferedModel) -> str:
    window = f"{model.window:,} tokens" if model.window else ""
    price = "" if model.price is None else " / ".join(map(dollars, model.price))
    more = ", ".join(filter(None, (window, f"{price} per million" if price else "")))
    return f"{printable(model.id)}{f' ({more})' if more else ''}"


def _setup(context: Context) -> int:
    given, settings = context.given, load_settings(vars(context.given))
    answers = Answers.find(settings)
    has_model = asyncio.run(imported(MODEL_CHOICE)(settings)).configured
    if given.if_needed and (has_model or not answers.asks):
        return 0
    settings.home.create()
    steps = Setup(given, settings, answers)
    # A platform is added to what is there, unless the model is to change as well.
    named = (given.provider, given.url, given.chosen_model)
    only_platform = given.chosen_platform and has_model and not any(named)
    chosen = () if only_platform else (steps.choose_model, steps.choose_sandbox, steps.choose_tools)
    try:
        for step in (*chosen, steps.choose_platforms):
            step()
    finally:
        if steps.written:
            say("\nWritten:\n  " + "\n  ".join(map(printable, steps.written)))
    if not given.if_needed:  # then `make up` starts it
        say("\nStart Hermes with: hermes up")
    return 0


COMMAND = Command(
    EXAMPLES,
    function=_setup,
    arguments=(
        arg(
            "--provider",
            "where models run; `local` is a server on this machine",
            choices=(LOCAL, *KEYS, *LOGINS, CUSTOM),
        ),
        arg("--url URL", "base URL of another endpoint"),
        arg("--key-file FILE", "read the key from this file; - is standard input"),
        arg("--model-id ID", "model to use (the provider's default)", field="chosen_model"),
        arg("--sandbox", "where commands run", choices=(AUTO, *ISOLATION)),
        arg("--tools", "which tools models get", choices=tuple(name for name, _ in TOOLS)),
        arg(
            "--platform NAME",
            "platform to talk through; its variables are read from the environment or `.env`",
            field="chosen_platform",
        ),
        arg("--users IDS", "comma-separated ids of the people who may talk to Hermes there"),
        flag("--no-platforms", "do not ask about platforms"),
        flag("--if-needed", "do nothing if a model is configured, or without a terminal"),
    ),
)
