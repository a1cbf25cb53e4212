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
in half an hour | + 30m
in a quarter of an hour | + 15m
in an hour and a half | + 90m
in 2 hours and a half | + 150m
in 2 hours and 5 minutes | + 125m
in 1 hour, 20 minutes | + 80m
in 3 days | + 3d
in a week | + 1w
in 2 weeks | + 2w
in a fortnight | + 2w
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
24.12.2026 18:00 | = 2026-12-24T17:00
on 24.12.2026 at 6pm | = 2026-12-24T17:00
tomorrow at 9:00 | = 2026-11-22T08:00
tomorrow 9am | = 2026-11-22T08:00
9am tomorrow | = 2026-11-22T08:00
at 17:30 tomorrow | = 2026-11-22T16:30
tomorrow morning | = 2026-11-22T07:00
tomorrow morning at 7 | = 2026-11-22T06:00
tomorrow evening at 7 | = 2026-11-22T18:00
tomorrow at noon | = 2026-11-22T11:00
tomorrow noon | = 2026-11-22T11:00
tomorrow at half past 8 | = 2026-11-22T07:30
the day after tomorrow at 10:00 | = 2026-11-23T09:00
today at 23:30 | = 2026-11-21T22:30
tonight at 11:45 | = 2026-11-21T22:45
at 23:30 | = 2026-11-21T22:30
at 9am | = 2026-11-22T08:00
9am | = 2026-11-22T08:00
17:30 | = 2026-11-22T16:30
at noon | = 2026-11-22T11:00
midnight | = 2026-11-21T23:00
at 8 o'clock | = 2026-11-22T07:00
at 7 in the evening | = 2026-11-22T18:00
monday at 9:00 | = 2026-11-23T08:00
on monday at 9am | = 2026-11-23T08:00
Friday 5 PM | = 2026-11-27T16:00
next friday at 17:00 | = 2026-11-27T16:00
this sunday at noon | = 2026-11-22T11:00
saturday at 9:00 | = 2026-11-28T08:00
next saturday at 9:00 | = 2026-11-28T08:00
at 9:00 on friday | = 2026-11-27T08:00
monday morning | = 2026-11-23T07:00
in 3 days at 9:00 | = 2026-11-24T08:00
in two weeks at noon | = 2026-12-05T11:00
december 24 at 18:00 | = 2026-12-24T17:00
december 24 at noon | = 2026-12-24T11:00
march 3 at midnight | = 2027-03-02T23:00
2027-03-01 at noon | = 2027-03-01T11:00
24.12.2026 at midnight | = 2026-12-23T23:00
24 december at noon | = 2026-12-24T11:00
tomorrow at 12 noon | = 2026-11-22T11:00
12 noon | = 2026-11-22T11:00
monday at 12 midnight | = 2026-11-22T23:00
today at midnight | = 2026-11-21T23:00
midnight tonight | = 2026-11-21T23:00
tonight at midnight | = 2026-11-21T23:00
tonight at 12 | = 2026-11-21T23:00
tonight at 2 | = 2026-11-22T01:00
tomorrow night at 1 | = 2026-11-23T00:00
24 dec at 6pm | = 2026-12-24T17:00
on the 24th of december at 18:00 | = 2026-12-24T17:00
march 3rd at 10:00 | = 2027-03-03T09:00
3 march 2028 at 10:00 | = 2028-03-03T09:00
March 3, 2028 10:00 | = 2028-03-03T09:00
november 21 at 9:00 | = 2027-11-21T08:00
29 february at 9:00 | = 2028-02-29T08:00
tomorrow at 9:00 America/New_York | = 2026-11-22T14:00
at 9am utc | = 2026-11-22T09:00
"""

AGAIN = """
every minute | ~ 1m
every 5 minutes | ~ 5m
every 5min | ~ 5m
every five minutes | ~ 5m
  every   90s | ~ 90s
every 2h | ~ 2h
every 2hrs | ~ 2h
Every Hour | ~ 1h
every other hour | ~ 2h
every second hour | ~ 2h
every 3rd hour | ~ 3h
every two hours | ~ 2h
every half hour | ~ 30m
every half an hour | ~ 30m
every quarter hour | ~ 15m
every 1.5 hours | ~ 90m
every 1h30m | ~ 90m
every hour and 15 minutes | ~ 75m
every 30 minutes | ~ 30m
each hour | ~ 1h
hourly | ~ 1h
every day | ~ 1d
daily | ~ 1d
once a day | ~ 1d
once per hour | ~ 1h
every 1d 12h | ~ 36h
every other day | ~ 2d
every 2 days | ~ 2d
every 10 days | ~ 10d
every week | ~ 1w
weekly | ~ 1w
every two weeks | ~ 2w
every fortnight | ~ 2w
@every 2h | ~ 2h
@every 1h30m | ~ 90m
every day at 9:00 | 0 9 * * *
every day 9am | 0 9 * * *
every day at 9 | 0 9 * * *
every day at 09:05 | 5 9 * * *
every day at 9.30 | 30 9 * * *
every day at 9:00:00 | 0 9 * * *
every day at 9 a.m. | 0 9 * * *
every day at 12am | 0 0 * * *
every day at 12 pm | 0 12 * * *
every day at noon | 0 12 * * *
every day at midnight | 0 0 * * *
every day at half past 8 | 30 8 * * *
every day at quarter to 9 | 45 8 * * *
daily at 9:00 | 0 9 * * *
9am daily | 0 9 * * *
at 9:00 every day | 0 9 * * *
once a day at 9:00 | 0 9 * * *
each day at 7pm | 0 19 * * *
every day at 9:00 and 17:00 | 0 9,17 * * *
every day at 8am, noon and 6pm | 0 8,12,18 * * *
every morning | 0 8 * * *
every morning at 7 | 0 7 * * *
every morning at 7:30 | 30 7 * * *
every afternoon at 3 | 0 15 * * *
every evening | 0 18 * * *
every evening at 7 | 0 19 * * *
every night at 11 | 0 23 * * *
every night at 12 | 0 0 * * *
every night at 2 | 0 2 * * *
nightly | 0 21 * * *
every day in the evening at 8 | 0 20 * * *
every day at 8 in the evening | 0 20 * * *
every day 8 in the evening | 0 20 * * *
every monday at 7 and 8 in the morning | 0 7,8 * * mon
weekdays at half past 6 in the evening | 30 18 * * mon-fri
every day at 11 at night | 0 23 * * *
every 24 december in the evening | 0 18 24 12 *
every december 24 in the evening | 0 18 24 12 *
every month on the 15 in the evening | 0 18 15 * *
every weekday at 9:00 | 0 9 * * mon-fri
weekdays at 9 | 0 9 * * mon-fri
on weekdays at 8:30 | 30 8 * * mon-fri
every workday at 9:00 | 0 9 * * mon-fri
every business day at 9:00 | 0 9 * * mon-fri
every working day at 5pm | 0 17 * * mon-fri
every weekday morning at 8 | 0 8 * * mon-fri
every weekend at noon | 0 12 * * sat,sun
weekends at 10am | 0 10 * * sat,sun
every monday 8am | 0 8 * * mon
mondays at 8am | 0 8 * * mon
every monday at noon | 0 12 * * mon
at 8am every monday | 0 8 * * mon
every monday morning | 0 8 * * mon
every friday night at 10 | 0 22 * * fri
every sunday at midnight | 0 0 * * sun
every Monday and Friday at 6:30 PM | 30 18 * * mon,fri
every mon, wed, and fri at 7 | 0 7 * * mon,wed,fri
every mon wed fri at 7 | 0 7 * * mon,wed,fri
mon/wed/fri at 7:15 | 15 7 * * mon,wed,fri
monday and thursday at 9:00 | 0 9 * * mon,thu
every tues & thurs at 9:00 | 0 9 * * tue,thu
every monday to friday at 9:00 | 0 9 * * mon-fri
mon-fri at 9:00 | 0 9 * * mon-fri
monday through thursday at 5pm | 0 17 * * mon-thu
every week on friday at 17:00 | 0 17 * * fri
weekly on friday at 5pm | 0 17 * * fri
every month on the 1st at 9:00 | 0 9 1 * *
monthly on the 15th at noon | 0 12 15 * *
on the 1st of every month at 9am | 0 9 1 * *
the first of every month at 9am | 0 9 1 * *
every 15th at 9:00 | 0 9 15 * *
every month on the 1st and 15th at 9:00 | 0 9 1,15 * *
on the 28th of the month at 18:00 | 0 18 28 * *
every year on march 1 at 9:00 | 0 9 1 3 *
yearly on 24 december at 18:00 | 0 18 24 12 *
every december 24th at 6pm | 0 18 24 12 *
every 24 dec at 18:00 | 0 18 24 12 *
every hour at :15 | 15 * * * *
every hour at minute 30 | 30 * * * *
every hour on the half hour | 30 * * * *
every hour on the hour | 0 * * * *
hourly at 10 past | 10 * * * *
every 2 hours at :30 | 30 */2 * * *
every 15 minutes between 9:00 and 17:00 | */15 9-16 * * *
every 15 minutes from 9am to 5pm on weekdays | */15 9-16 * * mon-fri
every hour between 9 and 17 | 0 9-17 * * *
every hour from 9 to 17 on mon and wed | 0 9-17 * * mon,wed
every hour on weekdays from 9 to 17 | 0 9-17 * * mon-fri
every 2 hours from 8am to 8pm | 0 8-20/2 * * *
every 30 minutes on weekdays | */30 * * * mon-fri
every hour on weekends | 0 * * * sat,sun
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
