"""The documentation knows every metric, and nobody's inventions make series."""

import ast
import re
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry

from agent_service.models.instrumented_model import ModelMetrics
from agent_service.records.calls import PendingCall
from agent_service.records.commands import ToolReturned
from agent_service.records.events import Outcome, TurnFinished
from agent_service.records.model import ModelMessage, ModelRequest, Purpose, ToolCall
from agent_service.records.requests import TurnOptions, TurnRequest
from agent_service.records.turn_state import LiveTurn
from agent_service.records.usage import Usage
from agent_service.turns.metrics import AgentMetrics
from executor_service.metrics import EgressMetrics
from executor_service.records.network_policy import Rule
from services.database.leases import Lease
from services.telemetry.metrics import LabelValues, Meter
from tests.architecture.source import product
from tests.observability.declared import declared

INVENTIONS = 10_000
CLOSED = {
    *("backend", "decision", "direction", "family", "gen_ai_token_type", "grpc_status", "kind"),
    *(
        "launch",
        "outcome",
        "policy",
        "purpose",
        "reason",
        "route",
        "scope",
        "source",
        "state",
        "store",
        "to",
    ),
}
"""Labels whose values are those of an enumeration or a table of ours."""
CONFIGURED = {"platform", "provider", "gen_ai_provider_name", "template", "grpc_method"}
"""Labels whose values settings or contracts name."""
BOUNDED = {"tool", "model", "gen_ai_request_model", "rule", "status"}
"""Labels whose values come from outside, and of which there are so many at most."""


def test_the_documented_metrics_are_all_metrics() -> None:
    made = re.compile(r"(?:counter|gauge|histogram)\(\s*\"((?:hermes|grpc|gen_ai)_[a-z0-9_]+)\"")
    named = {name for module in product() for name in made.findall(module.text)}
    documented = {one.name for metrics in declared().values() for one in metrics}
    assert named - documented == {"hermes_build_info"}, "which a sentence describes"


def test_every_metric_is_measured() -> None:
    fields = {
        node.target.id
        for module in product()
        for node in module.find(ast.AnnAssign)
        if isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) in ("counter", "gauge", "histogram")
    }
    used = re.compile(r"\.(\w+)\.(?:labels|inc|dec|set|set_function|observe)\(")
    assert len(fields) > 30
    assert fields <= {name for module in product() for name in used.findall(module.text)}


def test_no_label_has_values_without_end() -> None:
    for metrics in declared().values():
        for one in metrics:
            assert set(one.labels) <= CLOSED | CONFIGURED | BOUNDED, one.name


def series(registry: CollectorRegistry) -> int:
    return sum(len(metric.samples) for metric in registry.collect())


def turn() -> LiveTurn:
    return LiveTurn(
        request=TurnRequest(
            *("trn_1", "default", "session", "", {"platform": "cli"}, "user"),
            options=TurnOptions("scripted", max_model_calls=1),
        ),
        platform="cli",
        lease=Lease("trn_1", "nobody", 1, datetime.now(UTC)),
        max_tokens=1,
        messages=[],
        message_count=0,
        sequence=0,
        steps=0,
        started_at=datetime.now(UTC),
        approval_timeout=timedelta(),
        session_usage=Usage(),
    )


def test_inventions_of_models_and_callers_share_a_name() -> None:
    registry = CollectorRegistry()
    meter = Meter(registry)
    agent = AgentMetrics.make(meter, ())
    models = ModelMetrics.make(meter, lambda name: name != "model-7")
    egress, live = EgressMetrics.create(meter), turn()
    for number in range(INVENTIONS):
        call = PendingCall("key", ToolCall("1", f"tool-{number}", "{}"), 1, 1)
        facts = ToolReturned(call, ""), TurnFinished(Outcome.COMPLETED)
        live.platform = f"platform-{number}"
        agent.committed(live, facts, 1.0)
        said = ModelMessage(
            "", "", (), Usage(1, 1, 1, 0, 1), "stop", f"model-{number}", f"provider-{number}"
        )
        models.count_use(ModelRequest("m", (), purpose=Purpose.TURN), said)
        models.time_answer(said, 0.1, 0.2)
        egress.count(Rule(f"host-{number}.example"), "not_listed")
    value, other = registry.get_sample_value, LabelValues.OTHER
    tools = value("hermes_tool_duration_seconds_count", {"tool": other, "outcome": "ok"})
    assert tools == INVENTIONS
    turns = value("hermes_turns_total", {"platform": other, "outcome": "completed"})
    assert turns is not None
    assert turns > INVENTIONS - 100
    assert series(registry) < 3000, "all of them together"
