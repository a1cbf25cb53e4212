"""No secret gets through, in whatever spelling, and ordinary text stays as it is."""

import base64
import json
import random
import re
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.redaction.redactor import MASK, MIN_SECRET_CHARS, Redactor

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
URL_LETTERS = LETTERS + "-_"
ANY_SECRET = st.text(st.characters(codec="utf-8"), min_size=MIN_SECRET_CHARS, max_size=60).filter(
    lambda text: len(text.strip()) >= MIN_SECRET_CHARS
)


def made(count: int, seed: int, alphabet: str = LETTERS) -> str:
    """A value made up for the test, with a digit and a letter in it."""
    return "a1" + "".join(random.Random(seed).choices(alphabet, k=count - 2))


def pem(kind: str) -> str:
    body = "\n".join(made(64, seed) for seed in range(6))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"


SHAPED = {
    "openai": f"sk-proj-{made(40, 1)}",
    "openai, older": f"sk-{made(20, 21)}T3BlbkFJ{made(20, 22)}",
    "openai service": f"sk-svcacct-{made(74, 23, URL_LETTERS)}T3BlbkFJ{made(74, 24, URL_LETTERS)}",
    "deepseek": f"sk-{made(32, 25, '0123456789abcdef')}",
    "lower case": f"sk-{made(48, 26, LETTERS[:26] + '0123456789')}",
    "openrouter": f"sk-or-v1-{made(64, 2)}",
    "anthropic": f"sk-ant-api03-{made(80, 3)}",
    "anthropic login": f"sk-ant-oat01-{made(93, 27, URL_LETTERS)}AA",
    "telegram": f"bot123456789:AA{made(33, 4)}",
    "discord": f"MTk4{made(20, 5)}.{made(6, 6)}.{made(38, 7)}",
    "slack": f"xoxb-{made(12, 8)}-{made(24, 9)}",
    "slack app": f"xapp-1-{made(30, 10)}",
    "github": f"ghp_{made(36, 11)}",
    "github fine": f"github_pat_{made(60, 12)}",
    "gitlab": f"glpat-{made(20, 13)}",
    "aws": "AKIA" + made(16, 14).upper(),
    "google": f"AIza{made(35, 15)}",
    "hugging face": f"hf_{made(34, 16)}",
    "groq": f"gsk_{made(52, 17)}",
    "npm": f"npm_{made(36, 28)}",
    "nvidia": f"nvapi-{made(64, 29, URL_LETTERS)}",
    "perplexity": f"pplx-{made(48, 30)}",
    "pypi": f"pypi-AgEIcHlwaS5vcmc{made(140, 31, URL_LETTERS)}",
    "replicate": f"r8_{made(37, 32)}",
    "xai": f"xai-{made(80, 33)}",
    "tavily": f"tvly-dev-{made(32, 34)}",
    "stripe": f"sk_live_{made(24, 18)}",
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.eyJ{made(30, 19)}.{made(43, 20)}",
    "rsa": pem("RSA PRIVATE KEY"),
    "pkcs8": pem("PRIVATE KEY"),
    "openssh": pem("OPENSSH PRIVATE KEY"),
    "pgp": pem("PGP PRIVATE KEY BLOCK"),
}


@pytest.mark.parametrize("name", SHAPED)
@pytest.mark.parametrize(
    "text", ["{}", "key={} and so on", '{{"a": "{}"}}', "https://x/{}/send?x=1", "'{}'\n"]
)
def test_a_well_known_shape_needs_no_registration(name: str, text: str) -> None:
    secret = SHAPED[name]
    clean = Redactor().redact(text.format(secret))
    assert MASK in clean
    tails = [line for line in secret.splitlines() if "-----" not in line]
    assert not [line for line in tails if line[-20:] in clean]
    assert clean.endswith(text.rpartition("}")[2])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def-123456", f"Authorization: Bearer {MASK}"),
        ("authorization: bearer a1b2c3d4e5", f"authorization: bearer {MASK}"),
        ("'Authorization': 'Basic dXNlcjpwYXNz'", f"'Authorization': 'Basic {MASK}'"),
        ("postgresql+psycopg://me:hunter2@db:5432/h", f"postgresql+psycopg://me:{MASK}@db:5432/h"),
        ("redis://:hunter2@cache", f"redis://:{MASK}@cache"),
        ("export MY_API_KEY=abcdefgh12345678", f"export MY_API_KEY={MASK}"),
        ('{"client_secret": "abcdefgh12345678"}', f'{{"client_secret": "{MASK}"}}'),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG+x", f"aws_secret_access_key = {MASK}"),
        ("?access_token=abcdefgh12345678&x=1", f"?access_token={MASK}&x=1"),
        (f"...{pem('PRIVATE KEY')[:150]}", f"...{MASK}"),
    ],
)
def test_the_words_around_a_secret_stay(text: str, clean: str) -> None:
    assert Redactor().redact(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "the bearer of this letter, and the bearer token authentication",
        "basic understanding of internationalization",
        'api_key = os.environ["OPENAI_API_KEY_2"]',
        "password = get_password_from_keyring1(user)",
        "prompt_tokens=12345 completion_tokens: 678 max_tokens: 16384",
        "https://user@example.org:8080/path?x=1 http://localhost:11434/v1",
        "12:34:56 at 2026-01-02T03:04:05.123456Z",
        "class sk-loading-spinner-container; npm_config_cache_directory_name",
        '<a class="sk-button-primary-2x">, .sk-container-id-12-toggleable and #sk-i18n-menu-3d',
        "sk-2026-11-27-release-notes; npm_config_node_gyp_v10_path=/x hf_hub_download_v2_cached()",
        "pypi-mirror-of-debian-12 and xai-theme-dark-variant-2, gsk_default_theme_4k_icons",
        "turn_id=trn_01hxyz0123456789abcdefghjk session_id=20260102_030405_ab12cd",
        "-----BEGIN CERTIFICATE-----\nMIIB1234\n-----END CERTIFICATE-----",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert Redactor([made(30, 1)]).redact(text) == text


def test_this_program_stays_as_it_is() -> None:
    redactor = Redactor()
    for path in Path(__file__).parents[3].glob("services/*.py"):
        text = path.read_text(encoding="utf-8")
        assert redactor.redact(text) == text, path


@pytest.mark.parametrize(
    "program",
    [
        'tokenizer = "Qwen/Qwen2-7B-Instruct"',
        "secretName: wildcard-tls-2024",
        "use(token=oauth2_access_token)",
        "password = generate_password_v2",
        'curl -H "Authorization: Bearer 7f3c9a1e4b2d" https://example.org',
        "RESTIC_PASSWORD=Backup2024Nightly99 restic backup /srv",
        "postgresql://user:pass1word@db/app",
    ],
)
def test_a_program_runs_as_it_was_written(program: str) -> None:
    redactor = Redactor(["a-known-value-4711"])
    assert redactor.redact_program(program) == program
    assert redactor.redact_program("use a-known-value-4711") == f"use {MASK}"


def spellings(secret: str) -> list[str]:
    data = secret.encode()
    return [
        secret,
        data.hex(),
        data.hex().upper(),
        quote(secret, safe=""),
        quote_plus(secret),
        re.sub("%..", lambda match: match[0].lower(), quote(secret)),
        json.dumps({"k": secret}),
        json.dumps(json.dumps({"k": secret})),
        repr({"k": secret}),
        *(base64.b64encode(b"x" * n + data + b"y" * n).decode() for n in range(4)),
        *(base64.urlsafe_b64encode(b"x" * n + data).decode() for n in range(4)),
    ]


def test_thirty_canaries_in_every_spelling_are_not_found() -> None:
    alphabet = LETTERS + "/+=\"'\\ \u00e9%&"
    canaries = [made(12 + seed, seed, alphabet) for seed in range(30)]
    redactor = Redactor(canaries)
    for canary in canaries:
        for spelling in spellings(canary):
            clean = redactor.redact(f"before {spelling} after")
            assert clean.startswith("before ")
            assert clean.endswith(" after")
            assert MASK in clean, spelling
            # No run of the spelling that would be worth anything is left.
            assert not [
                spelling[at : at + 8]
                for at in range(len(spelling) - 7)
                if spelling[at : at + 8] in clean and "k" not in spelling[at : at + 8]
            ], (spelling, clean)


@given(ANY_SECRET, st.text(max_size=40), st.text(max_size=40))
@example("it's-correct", "", '"')
@settings(max_examples=200, deadline=None)
def test_any_value_is_taken_out(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    text = before + secret + after
    for written in (text, json.dumps(text), json.dumps(json.dumps(text)), repr(text)):
        clean = redactor.redact(written)
        assert MASK in clean
        assert secret.strip() not in clean.replace(MASK, "")


def test_the_longest_of_several_secrets_goes_whole() -> None:
    redactor = Redactor(["correct-horse", "correct-horse-battery"])
    assert redactor.redact("it is correct-horse-battery") == f"it is {MASK}"


def test_a_secret_can_be_added_later() -> None:
    redactor = Redactor()
    assert redactor.redact("it is correct-horse") == "it is correct-horse"
    redactor.known.add(["  correct-horse\n"])
    assert redactor.redact("it is correct-horse") == f"it is {MASK}"


def test_what_is_too_short_to_be_told_apart_is_left() -> None:
    redactor = Redactor(["", "EMPTY", "1234567"])
    redactor.known.add(["token"])
    assert redactor.redact("an EMPTY token of 1234567") == "an EMPTY token of 1234567"


@pytest.mark.parametrize(
    "part",
    [
        "=",
        "=1",
        "a=",
        ":1",
        "://a:",
        "sk-",
        "eyJ",
        "ghp_",
        "bearer ",
        "-----BEGIN A ",
        "1:",
        " ",
        "M1",
    ],
)
@pytest.mark.slow
def test_a_long_line_takes_no_longer_than_its_length(part: str) -> None:
    # Time that grows with the square would be far beyond the limit of a test.
    text = part * (500_000 // len(part))
    assert Redactor(["correct-horse"]).redact(text + "(") == text + "("


def test_redactions_are_counted() -> None:
    counts: list[int] = []
    redactor = Redactor(["correct-horse"], counts.append)
    redactor.redact("nothing here")
    redactor.redact(f"correct-horse, correct-horse and {SHAPED['github']}")
    assert counts == [3]


def test_bytes_that_are_no_text_can_be_a_secret() -> None:
    secret = b"caf\xe9-caf\xe9-1234".decode("utf-8", "surrogateescape")
    assert Redactor([secret]).redact(f"x {secret} y") == f"x {MASK} y"


def test_of_secrets_that_end_the_latest_are_known() -> None:
    redactor = Redactor()
    tokens = [f"opaque.{number:04}.token" for number in range(100)]
    for token in tokens:
        redactor.known.add_passing(token)
    assert redactor.redact(tokens[-1]) == redactor.redact(tokens[-20]) == MASK
    assert redactor.redact(tokens[0]) == tokens[0]
    assert redactor.redact(tokens[-1].encode().hex()) == MASK
