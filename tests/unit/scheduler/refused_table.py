"""What people write that is no schedule, and what is said of it, at the time of the phrases."""

REFUSED = """
hello | it is no delay
soon | it is no delay
blue moon | it is no delay
next week | it is no delay
sometimes at noon | it is no delay
5 | it is no delay
-5m | it is no delay
every | "every" is neither a day
every  at 9:00 | it does not say on which days
every blursday at 9 | "blursday" is neither a day
every mnday at 9:00 | "mnday" is neither a day
every monday and blursday at 9 | "blursday" is neither a day
every blue moon | "blue" is neither a day
every 9:00 | it does not say on which days
every monday | it does not say at what time; say it, such as "every monday at 9:00"
every weekday | such as "every weekday at 9:00"
mondays | such as "every mondays at 9:00"
every month on the 1st | it does not say at what time
every year on march 1 | it does not say at what time
monday | it does not say at what time; say it, such as "tomorrow at 9:00"
tomorrow | it does not say at what time
march 3 | it does not say at what time
every month | "month" has no length of its own; name the day
every 2 months | "months" has no length of its own; name the day
every year | "year" has no length of its own
every quarter | "quarter" has no length of its own
monthly | "month" has no length of its own
in 2 months | "months" has no length of its own
every month at 9:00 | it does not say on which day of the month
monthly at noon | it does not say on which day of the month
every year at 9:00 | it does not say on which day of the year
every week at 9:00 | it does not say on which weekday
weekly at 9:00 | it does not say on which weekday
every month on the 32nd at 9:00 | "32nd" is not a day of the month from 1 to 31
every month on the 0th at 9:00 | "0th" is not a day of the month
every month on the last day at 9:00 | the last day of a month cannot be said
on the last friday of the month at 9:00 | the last day of a month cannot be said
every first monday of the month at 9:00 | a weekday of a certain week cannot be said
the 2nd tuesday of every month at 9:00 | a weekday of a certain week cannot be said
every other monday at 9:00 | every other such day cannot be said; "every 2 weeks"
every other day at 9:00 | every other such day cannot be said
twice a day | it does not say at what times
three times a day | such as "every day at 9:00 and 17:00"
every day except sunday at 9:00 | exceptions cannot be said
every weekday but not friday at 9:00 | exceptions cannot be said
every 2 days at 9:00 | "2 days" counts from now and has no time of day
every 2 weeks on monday at 9:00 | "2 weeks" counts from now and has no days; say "every 2 weeks", or
every two days on mondays at 9:00 | "two days" counts from now and has no days
every 2 months on the 1st at 9:00 | "months" has no length of its own
every 30 minutes for 2 hours | no start or end of its own; say "every 30 minutes", and after
every 2 hours starting at 9 | no start or end of its own; say "every 2 hours"
every 2h until friday | no start or end of its own; say "every 2h", and after how many runs
every day at 9:00 until friday | it has no start or end of its own; say "every 2h"
every hour from monday | no start or end of its own; say "every hour"
every -2h | a length of time is not negative
every 30 minutes on blursday | "blursday" is neither a day
every monday at 9:00 and friday at 10:00 | make one for "every monday at 9:00" and one
every day at 9:00 and every friday at 10:00 | days that have a time each are a job each
every monday,, friday at 9:00 | between two commas, or after one, there is no day
every monday- at 9:00 | "monday-" is neither a day
every 2 hours at 9:00 | "2 hours" counts from now and has no time of day
every day at 9:00 and 17:30 | several times of one job are at the same minute
every day at 25:00 | "25:00" is not a time of day such as 9:00
every day at 13pm | "13pm" is not a time of day
every day at 0am | "0am" is not a time of day
every day at 9:75 | "9:75" is not a time of day
tomorrow at 24:30 | "24:30" is not a time of day
at 99 | "99" is not a time of day
every hour at :75 | "75" is not a minute of an hour
every 7 minutes between 9:00 and 17:00 | "7 minutes" does not divide an hour or a day evenly
every 5 hours from 8am to 8pm | "5 hours" does not divide an hour or a day evenly
every 15 minutes between 9:30 and 17:00 | hours between which it runs are whole ones
every hour from 17 to 9 | hours between which it runs are whole ones of one day
every 10s | an interval lasts a minute or more
every second | an interval lasts a minute or more
every 3600 | "3600" has no unit; say it, such as "every 3600 minutes"
every 1000000000 hours | "1000000000" is too large a number
in 1000000000 hours | "1000000000" is too large a number
monday 3 at noon | it names two times, "3" and "noon"; say one
tomorrow 5 at noon | it names two times, "5" and "noon"; say one
tomorrow at 17:00 midnight | it names two times, "17:00" and "midnight"
every 0 hours | it takes no time
0m | it takes no time
in 0 days | it takes no time
in 2 blorps | "blorps" is not a unit of time
every 3 lightyears | "lightyears" is not a unit of time
in 9999 weeks | that is more than ten years away
2999-01-01T00:00 | that is more than ten years away
999999999d 999999999w | that is too far away
0001-01-01T00:00+23:00 | that is too far away
2020-01-01T09:00 | that is in the past
2026-11-21T23:15 | that is in the past
today at 9:00 | that is in the past
tonight at 8 | that is in the past
today at 0:00 | that is in the past
21.11.2026 at 9:00 | that is in the past
2027-02-30T09:00 | there is no such date
2026-13-01T09:00 | there is no such date
2026-13-01 | there is no such date
2026-12-01T25:00 | there is no such time of day; it is written as in "2027-03-01T09:00"
30.2.2027 9:00 | "30.2.2027": there is no such date
february 30 at 9:00 | there is no such date
2027-13-01 at 9:00 | there is no such date
12/24/2026 18:00 | not with slashes
on 24/12 at 6pm | a date is written as in "2027-03-01 9:00"
every day at 9am pst | "pst" is not the whole name of a time zone, such as "America/Los_Angeles"
0 9 * * * CET | "cet" is not the whole name of a time zone, such as "Europe/Berlin"
every day at 9:00 Mars/Olympus | "Mars/Olympus" is not a time zone such as "Europe/Berlin"
TZ=Nowhere 0 9 * * * | "Nowhere" is not a time zone such as
@reboot | "@reboot" is none of @hourly, @daily
@fortnightly | "@fortnightly" is none of
@every 5s | an interval lasts a minute or more
* * * * | five fields (minute, hour, day of the month, month, weekday), and this has 4
0 0 9 * * * | five fields (minute, hour, day of the month, month, weekday), and this has 6
0 0 9 ? * MON-FRI * | and this has 7
0 25 * * * | the hour "25" is outside 0-23
60 * * * * | the minute "60" is outside 0-59
0 9 0 * * | the day of the month "0" is outside 1-31
0 9 32 * * | the day of the month "32" is outside 1-31
0 9 * 13 * | the month "13" is outside 1-12
0 9 * foo * | "foo" is not a month
0 9 * * mo | "mo" is not a weekday
0 9 * * 8 | the weekday "8" is outside 0-7
0 9 * * *-5 | "*-5" is not a weekday
0 9 L * * | "l" is not a day of the month
0 9 15W * * | "15w" is not a day of the month
0 9 * * mon#1 | "mon#1" is not a weekday
0 9 20-10 * * | the day of the month range "20-10" ends before it begins; write it as "20-31,1-10"
0 22-6 * * * | the hour range "22-6" ends before it begins; write it as "22-23,0-6"
0 */0 * * * | the step of the hour "*/0" is out of range
0 9 * * mon-fri/9 | the step of the weekday "mon-fri/9" is out of range
0 9 1,, * * | "" is not a day of the month
-1 9 * * * | it is no delay
0 0 31 2 * | there is no such date
0 0 30 2 * | there is no such date
0 0 31 4,6 * | there is no such date
"""
