"""The panels about turns and models."""

from tests.observability.panels import RATE, Query, figure, graph, latest, quantiles, rate

_FIRST_CHUNK = "gen_ai_client_operation_time_to_first_chunk_seconds"

TURNS = (
    figure("Turns now", "Turns that run.", latest("hermes_turns_active")),
    figure(
        "Subagents now", "Those that others have handed over.", latest("hermes_subagents_active")
    ),
    figure(
        "Oldest in the queue",
        "How long the oldest turn has waited that has not begun.",
        latest("hermes_turn_queue_oldest_seconds", how="max"),
        unit="s",
    ),
    figure(
        "Waiting for a person",
        "Calls that a person has to allow.",
        latest("hermes_approvals_pending", how="max"),
    ),
    figure(
        "Longest wait for a person",
        "How long the oldest of them has waited.",
        latest("hermes_approvals_oldest_seconds", how="max"),
        unit="s",
    ),
    figure(
        "Cost today",
        "US dollars in the last 24 hours.",
        Query("sum(increase(hermes_llm_cost_usd_total[24h]))", "cost"),
        unit="currencyUSD",
    ),
    graph(
        "Turns", "Ended a second.", rate("hermes_turns_total", "platform", "outcome"), unit="ops"
    ),
    graph(
        "Time of turns",
        "From message to end.",
        *quantiles("hermes_turn_duration_seconds"),
        unit="s",
    ),
    graph(
        "Time to the first token",
        "Until something of an answer is there.",
        *quantiles(_FIRST_CHUNK, "gen_ai_request_model"),
        unit="s",
    ),
    graph(
        "Time of model calls",
        "Until an answer is whole.",
        *quantiles("gen_ai_client_operation_duration_seconds", "gen_ai_request_model"),
        unit="s",
    ),
    graph(
        "Tokens",
        "A second.",
        rate("gen_ai_client_token_usage_sum", "gen_ai_request_model", "gen_ai_token_type"),
    ),
    graph(
        "Prompt tokens from the cache",
        "The part of all prompt tokens.",
        Query(
            f"sum(rate(hermes_prompt_cache_read_tokens_total[{RATE}])) / "
            f'sum(rate(gen_ai_client_token_usage_sum{{gen_ai_token_type="input"}}[{RATE}]))',
            "cached",
        ),
        unit="percentunit",
    ),
    graph(
        "Cost",
        "US dollars an hour, by what models are asked for.",
        Query(
            f"sum by (purpose, model) (rate(hermes_llm_cost_usd_total[{RATE}])) * 3600",
            "{{purpose}} {{model}}",
        ),
        unit="currencyUSD",
    ),
    graph(
        "Budgets",
        "How much is spent of the one that is nearest to its limit.",
        latest("hermes_budget_used_ratio", "scope", how="max"),
        unit="percentunit",
    ),
    graph(
        "Failures of models",
        "Attempts a second that failed, and that followed one that did.",
        rate("hermes_llm_errors_total", "kind"),
        Query(f"sum(rate(hermes_llm_retries_total[{RATE}]))", "retries"),
        unit="ops",
    ),
    graph(
        "Time of tools",
        "By tool.",
        *quantiles("hermes_tool_duration_seconds", "tool", of=(0.95,)),
        unit="s",
    ),
    graph(
        "Tool calls",
        "Ended a second.",
        rate("hermes_tool_duration_seconds_count", "tool", "outcome"),
        unit="ops",
    ),
    graph(
        "Decisions of persons",
        "Asked and decided in the last hour.",
        Query("sum by (decision) (increase(hermes_approvals_total[1h]))", "{{decision}}"),
        Query("sum(increase(hermes_approvals_asked_total[1h]))", "asked"),
    ),
    graph(
        "Time of decisions",
        "From question to decision.",
        *quantiles("hermes_approval_wait_seconds"),
        unit="s",
    ),
    graph(
        "Taken over, and uncertain",
        "Turns of lost replicas, and steps of which nobody knows whether they happened.",
        Query("sum(increase(hermes_turn_resumes_total[1h]))", "taken over"),
        Query("sum(increase(hermes_steps_uncertain_total[1h]))", "uncertain"),
    ),
    graph(
        "Made shorter",
        "Conversations in the last hour, by whether it helped.",
        Query("sum by (outcome) (increase(hermes_compressions_total[1h]))", "{{outcome}}"),
    ),
    graph(
        "Looks back",
        "Reviews in the last hour.",
        Query(
            "sum by (kind, outcome) (increase(hermes_reviews_total[1h]))", "{{kind}} {{outcome}}"
        ),
    ),
    graph(
        "Memory",
        "How full the fullest memory of a profile is.",
        latest("hermes_memory_used_ratio", "store", how="max"),
        unit="percentunit",
    ),
    graph("Skills", "Of all profiles.", latest("hermes_skills", "state", how="max")),
    graph(
        "Attacks",
        "Texts and commands blocked in the last hour.",
        Query(
            "sum by (source, family) (increase(hermes_threats_blocked_total[1h]))",
            "{{source}} {{family}}",
        ),
    ),
    graph(
        "Secrets",
        "Replaced in what is stored and shown, in the last hour.",
        Query("sum by (service) (increase(hermes_secrets_redacted_total[1h]))", "{{service}}"),
    ),
)
