"""Distributions of toolsets: where they come from, and what is sampled of them."""

import math
from pathlib import Path

import pytest

from agent_service.config.toolsets import TOOLSETS
from services.cli.batch.distributions import Distribution, find_distribution, list_distributions
from services.config.fields import ConfigError
from services.errors import InvalidArgument
from services.home.paths import HomePaths

REPOSITORY = Path(__file__).parents[3]
ITEMS = [f"item-{number}" for number in range(5000)]


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    return HomePaths(tmp_path, tmp_path)


def test_bundled_ones_name_toolsets_that_there_are_and_are_documented(home: HomePaths) -> None:
    found = list_distributions(home)
    assert [each.name for each in found] == sorted(each.name for each in found)
    assert {"default", "coding", "research", "safe"} <= {each.name for each in found}
    page = (REPOSITORY / "docs/research.md").read_text()
    for each in found:
        assert set(each.chances) <= set(TOOLSETS)
        shown = ", ".join(f"{name} {chance:g}" for name, chance in each.chances.items())
        assert f"| `{each.name}` | {shown} |" in page
    (safe,) = (each for each in found if each.name == "safe")
    assert not {"terminal", "file", "code_execution"} & set(safe.chances)


def test_the_same_seed_gives_the_same_toolsets(home: HomePaths) -> None:
    coding = find_distribution(home, "coding")
    # These must stay as they are, so that a batch can be made again later.
    assert coding.sample(0, "a") == ["terminal", "file", "code_execution"]
    assert coding.sample(7, "b") == ["terminal", "code_execution", "todo"]
    forward = [coding.sample(1, item) for item in ITEMS]
    backward = [coding.sample(1, item) for item in reversed(ITEMS)]
    assert forward == backward[::-1]
    assert forward != [coding.sample(2, item) for item in ITEMS]


def test_each_toolset_comes_by_its_chance(home: HomePaths) -> None:
    for each in list_distributions(home):
        sampled = [each.sample(3, item) for item in ITEMS]
        none = 100 * math.prod(1 - chance / 100 for chance in each.chances.values())
        likeliest = max(each.chances, key=lambda name: each.chances[name])
        for name, chance in each.chances.items():
            share = 100 * sum(name in toolsets for toolsets in sampled) / len(ITEMS)
            assert share == pytest.approx(chance + none * (name == likeliest), abs=2)


def test_an_item_has_at_least_the_likeliest_toolset() -> None:
    rare = Distribution("rare", {"web": 0.1, "file": 0.2, "todo": 0.2})
    sampled = {tuple(rare.sample(0, item)) for item in ITEMS[:100]}
    assert sampled == {("file",)}


def test_the_home_adds_and_replaces(home: HomePaths) -> None:
    count = len(list_distributions(home))
    home.distributions.write_text("coding: {web: 12.5}\nmine: {todo: 100}\n")
    assert len(list_distributions(home)) == count + 1
    assert find_distribution(home, "coding").chances == {"web": 12.5}
    assert find_distribution(home, "mine").sample(0, "a") == ["todo"]


@pytest.mark.parametrize(
    "wrong",
    [
        "mine: {}",
        "mine: 5",
        "mine: {web: 0}",
        "mine: {web: 101}",
        "mine: {web: .nan}",
        "mine: {web: often}",
        "my own: {web: 50}",
    ],
)
def test_a_wrong_one_is_named_with_its_line(home: HomePaths, wrong: str) -> None:
    home.distributions.write_text(f"good: {{web: 5}}\n{wrong}\n")
    with pytest.raises(InvalidArgument, match=r"distributions\.yaml, line 2: 'm.*chances"):
        list_distributions(home)


def test_a_file_that_is_no_yaml_and_an_unknown_name_are_refused(home: HomePaths) -> None:
    with pytest.raises(InvalidArgument, match="did you mean research"):
        find_distribution(home, "reserch")
    with pytest.raises(InvalidArgument, match="there are balanced, browser"):
        find_distribution(home, "qqq")
    home.distributions.write_text("mine: {web\n")
    with pytest.raises(ConfigError, match="line"):
        list_distributions(home)
