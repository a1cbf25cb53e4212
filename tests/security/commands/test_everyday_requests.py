"""Everyday requests that say nothing, and the like of them that do."""

import pytest

from agent_service.security.commands.classifier import CommandClassifier

CLASSIFIER = CommandClassifier()
AT = "https://example.com/a"

EVERYDAY = [
    *("aws s3 cp s3://b/k ./k", "aws s3 sync s3://b .", "aws s3 cp s3://b/k -"),
    *("gcloud storage cp gs://b/x .", "gcloud storage rsync -r gs://b/x ./y"),
    *(f'curl -s {AT} -o "$OUT"', f'wget -P "$DIR" {AT}', f'O=$(mktemp); curl -o "$O" {AT}'),
    *(f"curl -H 'Accept-Encoding: gzip, br' {AT}", f"curl -H 'Accept-Language: en-GB' {AT}"),
    *(f"curl -r 0-99 {AT}", 'python -c "import http.client"'),
]
SENDING = [
    *("aws s3 cp ./k s3://b/k", "aws s3 cp s3://a/k s3://b/k", "aws s3 mv s3://b/k ./k"),
    *("aws s3 cp - s3://b/k", "aws s3 sync . s3://b", "gcloud storage cp x gs://b/"),
    *(f"curl -o $(cat n) {AT}", f'curl -o "a" "$X" {AT}', f"wget -P $DIR {AT}", f"curl -$X {AT}"),
    *(f"curl -H 'Accept-Language: secret' {AT}", f"curl -r 0-1,2-3,4-5 {AT}"),
    "python -c \"import http.client as h; h.HTTPConnection('a.io').request('GET', '/')\"",
]


@pytest.mark.parametrize("command", EVERYDAY)
def test_everyday_requests_send_nothing(command: str) -> None:
    assert not CLASSIFIER.classify(command).sends


@pytest.mark.parametrize("command", SENDING)
def test_what_says_more_than_an_everyday_request_sends(command: str) -> None:
    assert CLASSIFIER.classify(command).sends


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_loop_asks_an_address_for_each_of_its_items(quote: str) -> None:
    text = f"for i in 1 2 3; do curl {quote}https://example.com/$i{quote}; done"
    addresses = tuple(f"https://example.com/{number}" for number in (1, 2, 3))
    assert CLASSIFIER.classify(text).addresses == addresses
