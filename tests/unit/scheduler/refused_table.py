"""What people write that is no schedule, and what is said of it, at the time of the phrases."""

REFUSED = """
hello | it is no delay
next week | it is no delay
5 | it is no delay
-5m | it is no delay
every | "every" is neither a day
every blursday at 9 | "blursday" is neither a day
every monday and blursday at 9 | "blursday" is neither a day
every monday | it does not say at what time; say it, such as "every monday at 9:00"
every weekday | such as "every weekday at 9:00"
every month on the 1st | it does not say at what time
monday | it does not say at what time; say it, such as "tomorrow at 9:00"
tomorrow | it does not say at what time
every month at 9:00 | it does not say on which day of the month
every week at 9:00 | it does not say on which weekday
every 2 days at 9:00 | "2 days" counts from now and has no time of day
every monday- at 9:00 | "monday-" is neither a day
every day at 9:00 and 17:30 | several times of one job are at the same minute
every day at 25:00 | "25:00" is not a time of day such as 9:00
every day at 13pm | "13pm" is not a time of day
at 99 | "99" is not a time of day
every 10s | an interval lasts a minute or more
every 0 hours | it takes no time
in 0 days | it takes no time
in 9999 weeks | that is more than ten years away
2999-01-01T00:00 | that is more than ten years away
999999999d 999999999w | that is too far away
0001-01-01T00:00+23:00 | that is too far away
2020-01-01T09:00 | that is in the past
today at 0:00 | that is in the past
2026-13-01 | there is no such date
every day at 9:00 Mars/Olympus | "Mars/Olympus" is not a time zone such as "Europe/Berlin"
@reboot | "@reboot" is none of @hourly, @daily
@every 5s | an interval lasts a minute or more
* * * * | five fields (minute, hour, day of the month, month, weekday), and this has 4
0 0 9 * * * | five fields (minute, hour, day of the month, month, weekday), and this has 6
0 25 * * * | the hour "25" is outside 0-23
0 9 0 * * | the day of the month "0" is outside 1-31
0 9 * foo * | "foo" is not a month
0 9 * * mo | "mo" is not a weekday
0 9 * * 8 | the weekday "8" is outside 0-7
0 9 * * *-5 | "*-5" is not a weekday
0 9 L * * | "l" is not a day of the month
0 9 * * mon#1 | "mon#1" is not a weekday
0 9 20-10 * * | the day of the month range "20-10" ends before it begins; write it as "20-31,1-10"
0 */0 * * * | the step of the hour "*/0" is out of range
0 9 * * mon-fri/9 | the step of the weekday "mon-fri/9" is out of range
0 9 1,, * * | "" is not a day of the month
-1 9 * * * | it is no delay
0 0 31 2 * | there is no such date
0 0 31 4,6 * | there is no such date
every morning at 7 | "morning" is neither a day nor
december 24 at 18:00 | it is no delay
every other day | "other day" is neither
every hour at :15 | "hour at :15" is neither
2027-02-30T09:00 | it is no delay
every 2 months | "months" is not a unit of time
in 2 blorps | "blorps" is not a unit of time
"""
