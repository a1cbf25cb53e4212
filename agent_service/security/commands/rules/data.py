"""Rules for databases."""

import re

from agent_service.security.commands.invocation import Invocation
from agent_service.security.commands.rules.base import Rule, always, unless_asking, verb

_COMMENTS = re.compile(r"/\*!?\d*(.*?)\*/|--[^\n]*|#[^\n]*", re.DOTALL)
# An option before its value looks like a comment.
_OPTION = re.compile(r"^--[a-z][\w-]*=?")
_DROPS = re.compile(
    r"\bdrop\s+(?:temporary\s+)?(?:table|database|schema|view|index|keyspace|user|role|"
    r"owned|tablespace"
    r"|materialized\s+view|column|collection|stream|dictionary|function|trigger|extension)\b"
    r"|\btruncate\s+(?:table\s+)?[\w\"`\[.]|\balter\s+table\s+\S+\s+(?:on\s+cluster\s+\S+\s+)?(?:drop|delete)\b"
    r"|\bdelete\s+from\s+(?:only\s+)?[\w\"`\[\].]+(?:\s+(?:as\s+)?(?!where\b|using\b)\w+)?\s*(?:;|$|\\|'|\")"
    r"|\bupdate\s+[\w\"`\[\].]+\s+set\s+(?:(?!\bwhere\b)[^;])*(?:;|$)"
    r"|\b(?:delete\s+from\s+[\w\"`\[\].]+|update\s+[\w\"`\[\].]+\s+set\s[^;]{0,400}?)\s+where\s+"
    r"(?:[^;]{0,400}\bor\s+)?(?:true|not\s+false|1|(\S+)\s*=\s*\1)(?=\s*(?:;|$|\\|'|\"|or\b))",
    re.IGNORECASE,
)
_OVER_SQL = re.compile(
    r"\bcopy\s+\S+\s+(?:from|to)\s+program\b|\binto\s+(?:out|dump)file\b|xp_cmdshell|"
    r"sys_exec\s*\("
    r"|\bload_extension\s*\(|lo_export\s*\(",
    re.IGNORECASE,
)
_SQL_PROGRAMS = (
    "psql mysql mariadb sqlite3 sqlite sqlcmd sqlplus duckdb cqlsh clickhouse-client clickhouse "
    "cockroach pgcli mycli litecli usql bq snowsql trino presto impala-shell hive beeline "
    "spark-sql "
    "isql osql tsql db2 vsql influx dbt rails php python python3 node ruby "
    "perl deno bun surreal turso wrangler d1 "
    "supabase "
    "prisma heroku mycli sqlite-utils docker"
)


_UNMIGRATES = re.compile(
    r"\b(?:migrate:(?:fresh|reset|refresh)|db:(?:wipe|drop|migrate:undo:all)|schema:drop"
    r"|database:drop|migrate:rollback --all|ecto\.(?:drop|reset)|ef database drop"
    r"|database (?:drop|reset)|goose\b.* (?:reset|down-to 0)|migrate\b.* drop|dbmate\b.* drop"
    r"|downgrade base|flyway\b.* clean|drop-all|metadata clear)\b"
)


def sql_of(invocation: Invocation) -> str:
    """The SQL that a client is given, without its comments."""
    args = (_OPTION.sub("", arg) for arg in invocation.args)
    return _COMMENTS.sub(r" \1 ", f"{' '.join(args)}\n{invocation.stdin}")


def _drops(invocation: Invocation) -> bool:
    return bool(_DROPS.search(sql_of(invocation)))


def _flushes(invocation: Invocation) -> bool:
    text = f"{invocation.text}\n{invocation.stdin}"
    return bool(
        re.search(
            r"\bflush(?:all|db)\b|dropDatabase|\.drop\(\)|deleteMany\(\s*\{\s*\}\s*\)|"
            r"\.remove\(\s*\{\s*\}"
            r"|\b(?:del|unlink)\b[^\n]*[*\x91]|config\s+set\s+dir|\bdebug\s+segfault|\bshutdown\b",
            text,
            re.IGNORECASE,
        )
    )


def _escapes(invocation: Invocation) -> bool:
    return bool(_OVER_SQL.search(f"{invocation.text}\n{invocation.stdin}"))


def _administers(invocation: Invocation) -> bool:
    words = invocation.text
    if invocation.name in ("mysqladmin", "mariadb-admin"):
        return bool(re.search(r"\bdrop\b|\bshutdown\b", words))
    if invocation.name == "curl":
        deletes = re.search(r"-X\s*DELETE|--request[= ]DELETE", words)
        return bool(deletes) and bool(re.search(r":9200/", words))
    if invocation.name in ("rails", "rake", "bin/rails"):
        return bool(re.search(r"\bdb:(?:drop|reset|purge|schema:load)\b", words))
    if invocation.name in ("prisma", "npx"):
        return bool(re.search(r"migrate reset|db push.*--force-reset|--accept-data-loss", words))
    if invocation.name in ("manage.py", "python", "python3", "django-admin"):
        return bool(
            re.search(r"(?:^|\s)(?:flush|reset_db|migrate\s+\w+\s+zero)(?:\s|$)", words)
        ) and bool(re.search(r"manage|django", words + invocation.name))
    if invocation.name in ("etcdctl", "consul"):
        return bool(re.search(r"\bdel\b.*--prefix|kv delete --?recurse", words))
    if invocation.name in ("kafka-topics", "kafka-topics.sh", "rabbitmqctl"):
        return bool(re.search(r"--delete|\breset\b|delete_queue|purge_queue", words))
    return False


DATA_RULES: tuple[Rule, ...] = (
    Rule("sql-destructive", _SQL_PROGRAMS, _drops, "psql -c 'DROP TABLE users'"),
    Rule("sql-destructive", "dropdb dropuser", unless_asking(always), "dropdb shop"),
    Rule(
        "hidden-command",
        "psql mysql mariadb sqlcmd sqlite3",
        _escapes,
        "psql -c \"COPY t FROM PROGRAM 'id'\"",
    ),
    Rule(
        "database-destructive",
        "redis-cli valkey-cli keydb-cli mongosh mongo",
        _flushes,
        "redis-cli FLUSHALL",
    ),
    Rule(
        "database-destructive",
        "mysqladmin mariadb-admin curl rails rake prisma npx manage.py python python3 "
        "django-admin etcdctl consul kafka-topics kafka-topics.sh rabbitmqctl",
        _administers,
        "mysqladmin drop shop",
    ),
    Rule(
        "database-destructive",
        "php artisan symfony console sequelize knex typeorm mix ecto dotnet sqlx diesel "
        "goose migrate dbmate flask alembic flyway liquibase sequelize-cli hasura drizzle-kit",
        lambda i: bool(_UNMIGRATES.search(f"{i.name} {i.text}")),
        "php artisan migrate:fresh",
    ),
    Rule(
        "database-destructive",
        "ldapdelete pg_dropcluster pg_resetwal mongodrop",
        unless_asking(always),
        "ldapdelete -x cn=alice",
    ),
    Rule(
        "database-destructive",
        "influx",
        verb("delete", "bucket delete", "org delete"),
        "influx delete --bucket b --start 1970-01-01T00:00:00Z --stop 2030-01-01T00:00:00Z",
    ),
)
"""Rules for databases."""
