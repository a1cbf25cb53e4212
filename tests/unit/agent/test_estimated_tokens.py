"""How many tokens text and pictures are taken to have."""

from agent_service.models.costs import PICTURE_TOKENS, estimated_tokens


def test_a_picture_is_not_read_as_text() -> None:
    url = b'{"url":"data:image/png;base64,' + b"A" * 4_000_000 + b'"}'
    told = b'{"role":"user","content":"' + b"x" * 400 + b'"}'
    assert estimated_tokens([told]) == len(told) // 4
    assert PICTURE_TOKENS <= estimated_tokens([url]) < PICTURE_TOKENS + 20
    assert estimated_tokens([told, url + url]) >= 2 * PICTURE_TOKENS + len(told) // 4


def test_sound_counts_by_its_length() -> None:
    sound = b'{"url":"data:audio/ogg;base64,' + b"A" * 100_000 + b'"}'
    assert 1_000 <= estimated_tokens([sound]) < 1_020
