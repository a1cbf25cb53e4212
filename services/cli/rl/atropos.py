"""Serves an environment to a trainer through Atropos."""

import asyncio
import logging
from collections.abc import Sequence
from importlib import import_module
from statistics import fmean
from typing import Any

from services.amounts import plural
from services.cli.batch.creation import batch_options, check_toolsets
from services.cli.command import Context
from services.cli.console import complain
from services.cli.rl.chat_tokens import ChatTokenizer
from services.cli.rl.groups import Attempt, Groups
from services.cli.rl.runs import environment_prompts
from services.errors import FailedPrecondition, InvalidArgument, ServiceUnavailable
from services.home.batches.reward import reward
from services.home.trajectories.openai_messages import openai_record
from services.lifecycle import Failure, Workers


async def serve(context: Context) -> None:
    """Send groups of scored attempts to a trainer until it has made its steps."""
    from aiohttp import ClientError

    given = context.given
    base = await asyncio.to_thread(_base)
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(failure: Failure) -> None:
        if not broken.done():
            broken.set_exception(failure.error)

    groups = await _groups(context)
    async with Workers(end) as workers:
        env = await asyncio.to_thread(_environment, base, context)
        env.groups, env.own_workers = groups, workers
        complain(f"{given.environment}, {plural(len(groups.tasks), 'task')}: waiting for a trainer")
        manager = workers.start("environment", env.env_manager())
        try:
            await asyncio.wait({manager, broken}, return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                await broken
        except (import_module("tenacity").RetryError, ClientError):
            raise ServiceUnavailable(
                f"no Atropos answers at {given.atropos}; start its run-api, or give another "
                "address with --atropos, and run this command again"
            ) from None
        finally:
            await groups.stop()
    complain("the trainer has made its steps")


def _base() -> Any:
    """Import atroposlib, which takes seconds."""
    try:
        base: Any = import_module("atroposlib.envs.base")
    except ImportError:
        raise FailedPrecondition(
            'serving to Atropos needs an extra: pip install "hermes-services[atropos]"'
        ) from None
    base.logger.setLevel(logging.WARNING)  # it would write ten lines a second
    return base


async def _groups(context: Context) -> Groups:
    given = context.given
    prompts = await environment_prompts(context)
    options = batch_options(context, given.group_size, None)
    await check_toolsets(context, options, prompts)
    return Groups(context, given.run or f"{given.environment}.serve", prompts, options)


def _environment(base: Any, context: Context) -> Any:
    given = context.given
    config = base.BaseEnvConfig(
        group_size=given.group_size,
        max_num_workers=given.groups,
        tokenizer_name=given.tokenizer,
        rollout_server_url=given.atropos,
        wandb_name=given.environment,
        use_wandb=given.wandb,
        total_steps=-1,  # the trainer's
        steps_per_eval=given.eval_every,
        worker_timeout=-1,  # a batch ends by itself
    )
    try:
        # The agent calls the model, and not the client that Atropos makes.
        env = _environment_class(base)(config, [base.APIServerConfig(api_key="unused")])
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"tokenizer {given.tokenizer}: {error}") from None
    env.chat_tokenizer = ChatTokenizer(env.tokenizer)
    return env


def _environment_class(base: Any) -> Any:
    """Return a subclass of a class that is imported late."""

    class HermesEnv(base.BaseEnv):
        groups: Groups
        chat_tokenizer: ChatTokenizer
        own_workers: Workers
        """Their failures end the command; Atropos would log them, and go on."""

        async def setup(self) -> None:
            found = await self.groups.unfinished()
            self.backlog += reversed(found)
            self.next_number = max(found, default=-1) + 1

        async def get_next_item(self) -> int:
            # A command that goes on begins about where the trainer is.
            begun = self.curr_step * self.config.batch_size // self.config.group_size
            number = max(self.next_number, begun)
            self.next_number = number + 1
            return number

        async def collect_trajectories(self, item: int) -> tuple[Any, list[int]]:
            return await self.own_workers.start("group", self.collect(item)), []

        async def collect(self, number: int) -> Any:
            prompts = self.groups.task(number)
            attempts = await self.groups.attempts(number, prompts)
            scores = [reward(each.item) for each in attempts]
            shown = ", ".join(f"{score:.2f}" for score in scores)
            complain(f"group {number}, {prompts[0].item_id.rpartition('.')[0]}: {shown}")
            if len(attempts) == len(prompts):
                tokens = await asyncio.to_thread(_tokens, self.chat_tokenizer, attempts)
                if 0 < self.max_token_len <= (longest := max(map(len, tokens["tokens"]))):
                    complain(f"group {number} is too long for the trainer: {longest:,} tokens")
                return {"scores": scores, **tokens}
            complain(f"group {number} is left out: not every attempt has ended with a score")
            return await self.groups.remove(number)

        async def handle_send_to_api(self, scored_data: Any, item: Any = None, **more: Any) -> None:
            await super().handle_send_to_api(scored_data, item, **more)
            await self.own_workers.start("sent group", self.groups.remove(item))

        async def evaluate(self, *_arguments: Any, **_options: Any) -> None:
            await self.own_workers.start("evaluation", self.score(self.curr_step))

        async def score(self, step: int) -> None:
            name, prompts = f"evaluation-{step}", [task[0] for task in self.groups.tasks]
            attempts = await self.groups.attempts(name, prompts)
            await self.groups.remove(name)
            mean = fmean([each.item.result.score for each in attempts] or [0.0])
            complain(f"step {step}: mean score {mean:.3f} of {plural(len(attempts), 'task')}")
            await self.wandb_log({"eval/mean_score": mean})

    return HermesEnv


def _tokens(tokenizer: ChatTokenizer, attempts: Sequence[Attempt]) -> dict[str, Any]:
    samples = [tokenizer.encode(openai_record(each.trajectory)) for each in attempts]
    known = [each.logprobs for each in samples if each.logprobs is not None]
    return {
        "tokens": [each.tokens for each in samples],
        "masks": [each.masks for each in samples],
        # An empty list where they are not known: Atropos' own trainer cannot read null.
        "inference_logprobs": known if len(known) == len(samples) else [],
    }
