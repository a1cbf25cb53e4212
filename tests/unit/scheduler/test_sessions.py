"""The sessions of runs: each turn has one of its own."""

from datetime import UTC, datetime, timedelta

from scheduler_service.jobs import Attempt, session_id_of

NINE = datetime(2026, 11, 25, 9, tzinfo=UTC)
FIRST = Attempt()


def test_a_due_time_names_its_session() -> None:
    assert session_id_of("news", "run_1", NINE, FIRST) == "cron_news_20261125_090000"


def test_no_two_turns_share_a_session_though_they_fall_into_one_second() -> None:
    asked_for = NINE + timedelta(microseconds=1)
    again = NINE - timedelta(minutes=1)
    sessions = {
        session_id_of("news", "run_1", NINE, FIRST),
        session_id_of("news", "run_2", asked_for, FIRST),
        session_id_of("news", "run_3", asked_for, FIRST),
        session_id_of("news", "run_4", again, Attempt(number=2, not_before=NINE)),
        session_id_of("news", "run_4", again, Attempt(number=3, not_before=NINE)),
    }
    assert len(sessions) == 5
    assert all(session.startswith("cron_news_20261125_090000") for session in sessions)


def test_every_session_has_room_for_its_id() -> None:
    asked_for = NINE + timedelta(microseconds=1)
    for length in (97, 98, 99, 128):
        assert len(session_id_of("j" * length, "run_1", asked_for, FIRST)) <= 128
