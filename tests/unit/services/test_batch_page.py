"""The HTML page of a batch: whole, of plain text only, and drawn within its bounds."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from hermes.common.v1.usage_pb2 import Usage
from hermes.scheduler.v1 import batch_item_pb2 as pb
from services.cli.batch.page import write_page
from services.cli.batch.plots import Bar, bars, histogram
from services.cli.batch.report import ItemSummary, Report

HOSTILE = "</td></style><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e\"'&"


def item(number: int, score: float | None, **changes: object) -> ItemSummary:
    fields: dict[str, object] = {
        "id": f"item-{number}",
        "session_id": f"bat_x.{number}",
        "finish_reason": "completed",
        "prompt": "Count.",
        "problem": "",
        "model": "small",
        "score": score,
        "has_failed": False,
        "has_succeeded": score == 1,
        "ended_s": float(number),
        "lasted_s": number / 10,
        "tokens": 100 * number,
        "cost_micro_usd": 7,
        **changes,
    }
    return ItemSummary(**fields)  # pyright: ignore[reportArgumentType]


def report(*items: ItemSummary, budget_micro_usd: int = 0) -> Report:
    batch = pb.Batch(
        name="first",
        state=pb.BATCH_STATE_COMPLETED,
        options=pb.BatchOptions(worker_count=4, budget_micro_usd=budget_micro_usd),
        create_time=Timestamp(seconds=1_790_000_000),
        item_count=len(items),
        done_count=len(items),
        failed_count=sum(each.has_failed for each in items),
        success_count=sum(each.has_succeeded for each in items),
        usage=Usage(prompt_tokens=1500, completion_tokens=20, cost_micro_usd=2_500_000),
    )
    tools = {"terminal": {"calls": 8, "failures": 2, "duration_ms": 4000}}
    return Report(batch, items, {"completed": len(items)}, tools)


class Reader(HTMLParser):
    """Collects the tags, and the text outside of the style sheet."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data if self.tags[-1:] != ["style"] else ""


def page_of(made: Report, folder: Path) -> str:
    write_page(made, folder / "new" / "page.html")
    return (folder / "new" / "page.html").read_text(encoding="utf-8")


def test_the_page_tells_what_became_of_a_batch(tmp_path: Path) -> None:
    failed = item(
        3, None, has_failed=True, finish_reason="model_rate_limited", problem="It said no."
    )
    made = report(item(1, 1), item(2, 0.25), failed, budget_micro_usd=9_000_000)
    text = re.sub(r"\s+", " ", Reader(page_of(made, tmp_path)).text)
    for words in (
        "first completed",
        "model: small · workers: 4 · budget: $9.00",
        "3of 3 items done",
        "33.3 %succeeded: 1",
        "0.625mean score of 2",
        "$2.50cost, $0.8333 per item",
        "1.52ktokens: 1.5k in, 20 out",
        "8 calls, 2 failed, 0.5 s each",
        "a low score: 2 items",
        "It said no.",
        "bat_x.3",
    ):
        assert words in text
    # What failed comes before what scored little, and what succeeded does not come.
    assert text.index("bat_x.3") < text.index("bat_x.2")
    assert "bat_x.1" not in text


def test_text_of_models_is_never_markup(tmp_path: Path) -> None:
    evil = item(
        1,
        0,
        id=HOSTILE,
        session_id=HOSTILE,
        finish_reason=HOSTILE,
        prompt=HOSTILE,
        problem=HOSTILE,
        model=HOSTILE,
    )
    use = {"calls": 1, "failures": 1, "duration_ms": 1}
    made = report(evil)
    made.batch.reason = made.batch.name = made.batch.options.sandbox_template = HOSTILE
    page = page_of(Report(made.batch, [evil], {HOSTILE: 1}, {HOSTILE: use}), tmp_path)
    read = Reader(page)
    assert not {"script", "img", "a", "link", "iframe"} & {*read.tags}
    assert not [name for name in read.attributes if name.startswith("on") or name == "src"]
    assert "<script" not in page
    assert "<script>alert(1)</script>" in read.text
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "default-src 'none'" in page


def test_a_batch_without_ended_items_has_a_page(tmp_path: Path) -> None:
    made = report()
    text = Reader(page_of(Report(made.batch, [], {}, {}), tmp_path)).text
    assert "0of 0 items done" in text
    assert "low score" not in text


@pytest.mark.parametrize(
    "drawn",
    [
        pytest.param(histogram("A", "s", [0]), id="nothing but zero"),
        pytest.param(histogram("A", "s", [3.7] * 9), id="equal values"),
        pytest.param(histogram("A", "s", [1e-7, 1e-7, 2e-7]), id="tiny values"),
        pytest.param(histogram("A", "s", [*range(1000), 10**9], [10**9]), id="one far away"),
        pytest.param(histogram("A", "score", [0, 0.05, 0.999, 1, 1], most=1), id="scores"),
        pytest.param(histogram("A", "s", [5, 1, 3e5], [1], 3e5), id="up to the last"),
        pytest.param(bars("A", []), id="no bars"),
        pytest.param(bars("A", [Bar("x", 0, "0", 0)]), id="an empty bar"),
        pytest.param(bars("A", [Bar("x" * 99, n, "n", n) for n in range(40)]), id="many bars"),
    ],
)
def test_bars_stay_within_their_bounds(drawn: str) -> None:
    for bar in ElementTree.fromstring(drawn).iterfind("div[@class='bar']"):
        widths = [float(part.attrib["style"][len("width:") : -1]) for part in bar]
        assert min(widths) >= 0
        assert sum(widths) <= 100.02


def test_every_value_is_in_a_bin() -> None:
    values = [0.0, 0.05, 0.1, 0.3, 0.999, 1.0, 1.0]
    drawn = histogram("A", "score", values, [0.3], most=1)
    told = re.findall(r">(\S+) to (\S+) score</span><span>(\d+) items?([^<]*)", drawn)
    found = {(float(low), float(high)): int(count) for low, high, count, _ in told}
    assert sum(found.values()) == len(values)
    assert found[0.9, 1.0] == 3
    assert found[0.3, 0.4] == 1
    assert [low for low, _, _, failed in told if failed == ", 1 failed"] == ["0.3"]
    assert len(found) == 10
    far = histogram("A", "s", [*range(100), 10**6])
    assert "or more s</span><span>1 item<" in far
