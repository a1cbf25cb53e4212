"""The step of `hermes setup` that connects platforms to talk through."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from services.cli.admin.setup_answers import Answers, Option
from services.cli.console import complain, printable, say
from services.cli.startup import imported
from services.config.settings import Settings, is_secret_name, load_settings
from services.errors import FailedPrecondition, HermesError, InvalidArgument
from services.runtime.checks import Check, Verdict

CONFIG = "gateway_service.config:GatewayConfig"
CHECKS = "gateway_service.accounts.checks:checks"
GREET = "gateway_service.accounts.checks:greet"
LATER = "later"
TRIES = 3


class PlatformSetup(Struct):
    """Asks for the credentials of platforms, checks them there, and keeps them."""

    given: Mapping[str, Any]
    """The options of the command."""
    settings: Settings
    answers: Answers
    keep: Callable[..., None]

    def run(self, named: str | None, users: str | None) -> None:
        offered = {each.name: each for each in self._configs() if each.variables_needed}
        if named:
            if named not in offered:
                raise InvalidArgument(f"there is no platform {named}; use {', '.join(offered)}")
            self._connect_given(offered[named], users)
            return
        options: list[Option] = [
            (LATER, LATER),
            *((name, each.title or name.title()) for name, each in offered.items()),
        ]
        question = "Talk through a platform?"
        while (name := self.answers.choose(question, options, LATER)) != LATER:
            self._connect(offered[name])
            question = "Another one?"

    def _configs(self) -> list[Any]:
        return list(self.settings.load(imported(CONFIG)).platforms)

    def _connect_given(self, config: Any, users: str | None) -> None:
        """Connect a platform whose variables are in the environment, in `.env` or in files."""
        found = dict[str, str]()
        for name in config.variables_needed:
            value = self.settings.variable(name) or self.settings.secret_file(name)
            if value is None:
                raise InvalidArgument(
                    f"{config.name} needs {config.needs}; set them, or use .env ({config.page})"
                )
            found[name] = str(value.value)
        if problem := self._check(config, found):
            raise FailedPrecondition(printable(problem))
        self._keep(config, found, users or "")

    def _connect(self, config: Any) -> None:
        say("\n".join(filter(None, ("", config.steps, config.manifest, f"More: {config.page}"))))
        for _ in range(TRIES):
            found = dict[str, str]()
            for name in config.variables_needed:
                found[name] = self.answers.ask(f"{name}:", secret=is_secret_name(name))
                if not found[name]:
                    return
            problem = self._check(config, found)
            if not problem:
                question = f"Who may talk to Hermes there ({config.users}), separated by commas:"
                self._keep(config, found, self.answers.ask(question))
                return
            complain(printable(problem))

    def _keep(self, config: Any, found: Mapping[str, str], users: str) -> None:
        for name, value in found.items():
            self.keep(name, value, "(yours)" if is_secret_name(name) else None)
        if users:
            self.keep(f"{config.variables}ALLOWED_USERS", users)
        variables = {**found, **({f"{config.variables}ALLOWED_USERS": users} if users else {})}
        checks = self._checks(config, variables)
        checks += filter(None, [asyncio.run(imported(GREET)(self._with(variables), config.name))])
        for one in checks:
            tell = say if one.verdict is Verdict.OK else complain
            tell(printable(f"{one.name}: {one.message}"))

    def _check(self, config: Any, found: Mapping[str, str]) -> str:
        """Return why an account cannot be used; empty if it can."""
        try:
            checks = self._checks(config, found)
        except HermesError as error:
            return error.message
        return next((one.message for one in checks if one.verdict is Verdict.FAILED), "")

    def _checks(self, config: Any, found: Mapping[str, str]) -> list[Check]:
        checks: list[Check] = asyncio.run(imported(CHECKS)(self._with(found)))
        return [one for one in checks if one.name == config.name]

    def _with(self, found: Mapping[str, str]) -> Settings:
        return load_settings(self.given, {**self.settings.environ, **found})
