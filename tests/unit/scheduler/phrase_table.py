"""Schedules as people write them on Saturday, 21 November 2026, at 23:15:36.5 in Berlin.

What each is read as: `+` a delay, `~` an interval, `=` an instant in UTC, anything else a crontab
expression, with its zone where it is another than Berlin.
"""

ONCE = """
30m | + 30m
45 secs | + 45s
90s | + 90s
2h | + 2h
1h30m | + 90m
1 h 30 min | + 90m
1.5h | + 90m
2w | + 2w
3d | + 3d
in 2 hours | + 2h
In 20 Minutes | + 20m
in an hour | + 1h
in a minute | + 1m
in one hour | + 1h
in two hours | + 2h
in ten minutes | + 10m
in 2 hours and 5 minutes | + 125m
in 1 hour, 20 minutes | + 80m
in 3 days | + 3d
in a week | + 1w
in 2 weeks | + 2w
after 10 minutes | + 10m
20 minutes from now | + 20m
an hour from now | + 1h
2 hours | + 2h
in 5 mins. | + 5m
2027-03-01T09:00 | = 2027-03-01T08:00
2027-03-01 09:00 | = 2027-03-01T08:00
2027-03-01 09:00:30 | = 2027-03-01T08:00:30
2027-07-01 | = 2027-06-30T22:00
2027-03-01T09:00:00Z | = 2027-03-01T09:00
2027-03-01t09:00z | = 2027-03-01T09:00
2027-03-01T09:00+05:00 | = 2027-03-01T04:00
2027-03-01T09:00:00.750-03:30 | = 2027-03-01T12:30
2027-03-28T02:30 | = 2027-03-28T01:00
20270301T090000 | = 2027-03-01T08:00
2027-03-01T09:00 America/New_York | = 2027-03-01T14:00
2027-07-01 18:00 asia/tokyo | = 2027-07-01T09:00
2027-03-01 9am | = 2027-03-01T08:00
2027-03-01 at 6:30 pm | = 2027-03-01T17:30
tomorrow at 9:00 | = 2026-11-22T08:00
tomorrow 9am | = 2026-11-22T08:00
9am tomorrow | = 2026-11-22T08:00
at 17:30 tomorrow | = 2026-11-22T16:30
tomorrow at noon | = 2026-11-22T11:00
tomorrow noon | = 2026-11-22T11:00
today at 23:30 | = 2026-11-21T22:30
at 23:30 | = 2026-11-21T22:30
at 9am | = 2026-11-22T08:00
9am | = 2026-11-22T08:00
17:30 | = 2026-11-22T16:30
at noon | = 2026-11-22T11:00
midnight | = 2026-11-21T23:00
monday at 9:00 | = 2026-11-23T08:00
on monday at 9am | = 2026-11-23T08:00
Friday 5 PM | = 2026-11-27T16:00
next friday at 17:00 | = 2026-11-27T16:00
this sunday at noon | = 2026-11-22T11:00
saturday at 9:00 | = 2026-11-28T08:00
next saturday at 9:00 | = 2026-11-28T08:00
at 9:00 on friday | = 2026-11-27T08:00
2027-03-01 at noon | = 2027-03-01T11:00
tomorrow at 9:00 America/New_York | = 2026-11-22T14:00
at 9am utc | = 2026-11-22T09:00
"""

AGAIN = """
every minute | ~ 1m
every 5 minutes | ~ 5m
every 5min | ~ 5m
every five minutes | ~ 5m
every 2h | ~ 2h
every 2hrs | ~ 2h
Every Hour | ~ 1h
every two hours | ~ 2h
every 1.5 hours | ~ 90m
every 1h30m | ~ 90m
every 30 minutes | ~ 30m
each hour | ~ 1h
hourly | ~ 1h
every day | ~ 1d
daily | ~ 1d
every 1d 12h | ~ 36h
every 2 days | ~ 2d
every 10 days | ~ 10d
every week | ~ 1w
weekly | ~ 1w
every two weeks | ~ 2w
@every 2h | ~ 2h
@every 1h30m | ~ 90m
every day at 9:00 | 0 9 * * *
every day 9am | 0 9 * * *
every day at 9 | 0 9 * * *
every day at 09:05 | 5 9 * * *
every day at 9.30 | 30 9 * * *
every day at 9 a.m. | 0 9 * * *
every day at 12am | 0 0 * * *
every day at 12 pm | 0 12 * * *
every day at noon | 0 12 * * *
every day at midnight | 0 0 * * *
daily at 9:00 | 0 9 * * *
9am daily | 0 9 * * *
at 9:00 every day | 0 9 * * *
each day at 7pm | 0 19 * * *
every day at 9:00 and 17:00 | 0 9,17 * * *
every day at 8am, noon and 6pm | 0 8,12,18 * * *
every weekday at 9:00 | 0 9 * * mon-fri
weekdays at 9 | 0 9 * * mon-fri
on weekdays at 8:30 | 30 8 * * mon-fri
every weekend at noon | 0 12 * * sat,sun
weekends at 10am | 0 10 * * sat,sun
every monday 8am | 0 8 * * mon
mondays at 8am | 0 8 * * mon
every monday at noon | 0 12 * * mon
at 8am every monday | 0 8 * * mon
every sunday at midnight | 0 0 * * sun
every Monday and Friday at 6:30 PM | 30 18 * * mon,fri
every mon, wed, and fri at 7 | 0 7 * * mon,wed,fri
monday and thursday at 9:00 | 0 9 * * mon,thu
every monday to friday at 9:00 | 0 9 * * mon-fri
mon-fri at 9:00 | 0 9 * * mon-fri
monday through thursday at 5pm | 0 17 * * mon-thu
every week on friday at 17:00 | 0 17 * * fri
weekly on friday at 5pm | 0 17 * * fri
every month on the 1st at 9:00 | 0 9 1 * *
monthly on the 15th at noon | 0 12 15 * *
every month on the 1st and 15th at 9:00 | 0 9 1,15 * *
every weekday at 9:00 America/New_York | 0 9 * * mon-fri | America/New_York
every day at 9am in asia/tokyo | 0 9 * * * | Asia/Tokyo
every day at 9:00 (Europe/London) | 0 9 * * * | Europe/London
every monday at 8am Pacific/Auckland time | 0 8 * * mon | Pacific/Auckland
every day at 9:00 UTC | 0 9 * * * | UTC
every day at 9:00 gmt | 0 9 * * * | UTC
CRON_TZ=Asia/Kolkata 0 9 * * * | 0 9 * * * | Asia/Kolkata
TZ=America/Santiago every day at noon | 0 12 * * * | America/Santiago
0 9 * * * Australia/Lord_Howe | 0 9 * * * | Australia/Lord_Howe
* * * * * | * * * * *
0 9 * * mon-fri | 0 9 * * mon-fri
0 9 * * MON-FRI | 0 9 * * mon-fri
0 9 * * 1-5 | 0 9 * * 1-5
*/15 8-18 * * * | */15 8-18 * * *
*/15 8-18/2 1,15 jan-mar 0,7 | */15 8-18/2 1,15 jan-mar 0,7
0 9 1 * * | 0 9 1 * *
30 6 * nov-dec * | 30 6 * nov-dec *
0 0 29 2 * | 0 0 29 2 *
0 9 ? * mon | 0 9 * * mon
0 9 1 * ? | 0 9 1 * *
0 9 * * monday | 0 9 * * monday
0 9 1 january * | 0 9 1 january *
0 9 * * sun,wed | 0 9 * * sun,wed
5/10 * * * * | 5/10 * * * *
@hourly | 0 * * * *
@Hourly | 0 * * * *
@daily | 0 0 * * *
@midnight | 0 0 * * *
@weekly | 0 0 * * 0
@monthly | 0 0 1 * *
@yearly | 0 0 1 1 *
@annually | 0 0 1 1 *
@daily America/Santiago | 0 0 * * * | America/Santiago
"""


def rows(table: str) -> list[tuple[str, ...]]:
    """The cells of a table's lines."""
    return [tuple(cell.strip(" ") for cell in line.split(" | ")) for line in _lines(table)]


def _lines(table: str) -> list[str]:
    return [line for line in table.strip("\n").split("\n") if line]
