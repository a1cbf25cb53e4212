"""What people write that is no schedule, and what is said of it, at the time of the phrases."""

REFUSED = """
hello | it is no delay
-5m | it is no delay
every | "every" is neither a day
every blursday at 9 | "blursday" is neither a day
every monday | it does not say at what time; say it, such as "every monday at 9:00"
every month on the 1st at 9:00 | use a crontab expression, such as "0 9 1 * *"
monday to friday at 9:00 | it is no delay
monday | it does not say at what time; say it, such as "tomorrow at 9:00"
monthly | it does not say on which weekdays
every week at 9:00 | it does not say on which weekday
every 2 days at 9:00 | "2 days" counts from now and has no time of day
every day at 9:00 and 17:30 | several times of one job are at the same minute
every day at 25:00 | "25:00" is not a time of day such as 9:00
every day at 13pm | "13pm" is not a time of day
every 10s | an interval lasts a minute or more
every 0 hours | it takes no time
in 9999 weeks | that is more than ten years away
999999999d 999999999w | that is too far away
2020-01-01T09:00 | that is in the past
2026-13-01 | there is no such date
every day at 9:00 Mars/Olympus | "Mars/Olympus" is not a time zone such as "Europe/Berlin"
@reboot | "@reboot" is none of @hourly, @daily
* * * * | crontab expression of five fields
0 25 * * * | the hour "25" is outside 0-23
0 9 * foo * | "foo" is not a month
0 9 * * 8 | the weekday "8" is outside 0-7
0 9 * * mon#1 | "mon#1" is not a weekday
0 9 20-10 * * | the day of the month range "20-10" ends before it begins; write it as "20-31,1-10"
0 */0 * * * | the step of the hour "*/0" is out of range
0 9 1,, * * | "" is not a day of the month
-1 9 * * * | it is no delay
0 0 31 2 * | there is no such date
every morning at 7 | "morning" is neither a day nor
december 24 at 18:00 | it is no delay
2027-02-30T09:00 | it is no delay
every 2 months | "months" is not a unit of time
"""
