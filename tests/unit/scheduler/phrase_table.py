"""Schedules as people write them on Saturday, 21 November 2026, at 23:15:36.5 in Berlin.

What each is read as: `+` a delay, `~` an interval, `=` an instant in UTC, anything else a crontab
expression, with its zone where it is another than Berlin.
"""

ONCE = """
30m | + 30m
90s | + 90s
1h30m | + 90m
in 2 hours | + 2h
in 2 hours and 5 minutes | + 125m
20 minutes from now | + 20m
in 5 mins. | + 5m
2027-03-01T09:00 | = 2027-03-01T08:00
2027-03-01 09:00:30 | = 2027-03-01T08:00:30
2027-03-01T09:00:00.750-03:30 | = 2027-03-01T12:30
2027-03-28T02:30 | = 2027-03-28T01:00
2027-03-01T09:00 America/New_York | = 2027-03-01T14:00
2027-03-01 at 6:30 pm | = 2027-03-01T17:30
tomorrow at 9:00 | = 2026-11-22T08:00
at 17:30 tomorrow | = 2026-11-22T16:30
at 23:30 | = 2026-11-21T22:30
midnight | = 2026-11-21T23:00
monday at 9:00 | = 2026-11-23T08:00
next friday at 17:00 | = 2026-11-27T16:00
next saturday at 9:00 | = 2026-11-28T08:00
at 9:00 on friday | = 2026-11-27T08:00
tomorrow at 9:00 America/New_York | = 2026-11-22T14:00
at 9am utc | = 2026-11-22T09:00
"""

AGAIN = """
every minute | ~ 1m
every 5 minutes | ~ 5m
Every Hour | ~ 1h
every 1.5 hours | ~ 90m
hourly | ~ 1h
every 1d 12h | ~ 36h
weekly | ~ 1w
@every 2h | ~ 2h
every day at 9:00 | 0 9 * * *
every day at 9.30 | 30 9 * * *
every day at 9 a.m. | 0 9 * * *
every day at 12 pm | 0 12 * * *
9am daily | 0 9 * * *
every day at 8am, noon and 6pm | 0 8,12,18 * * *
every weekday at 9:00 | 0 9 * * mon-fri
every weekend at noon | 0 12 * * sat,sun
mondays at 8am | 0 8 * * mon
at 8am on weekdays | 0 8 * * mon-fri
every Monday and Friday at 6:30 PM | 30 18 * * mon,fri
every weekday at 9:00 America/New_York | 0 9 * * mon-fri | America/New_York
every day at 9am in Asia/Tokyo | 0 9 * * * | Asia/Tokyo
every monday at 8am Pacific/Auckland time | 0 8 * * mon | Pacific/Auckland
every day at 9:00 gmt | 0 9 * * * | UTC
0 9 * * * Australia/Lord_Howe | 0 9 * * * | Australia/Lord_Howe
0 9 * * MON-FRI | 0 9 * * mon-fri
*/15 8-18/2 1,15 jan-mar 0,7 | */15 8-18/2 1,15 jan-mar 0,7
@hourly | 0 * * * *
@yearly | 0 0 1 1 *
@daily America/Santiago | 0 0 * * * | America/Santiago
"""


def rows(table: str) -> list[tuple[str, ...]]:
    """The cells of a table's lines."""
    return [tuple(cell.strip(" ") for cell in line.split(" | ")) for line in _lines(table)]


def _lines(table: str) -> list[str]:
    return [line for line in table.strip("\n").split("\n") if line]
