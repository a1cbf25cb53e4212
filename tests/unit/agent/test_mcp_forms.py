"""Which answers fit fields of forms, and what a person is told to answer with."""

from typing import Any

import pytest

from agent_service.tools.mcp.forms import FormField, Value

CHOICE: dict[str, Any] = {"type": "string", "enum": ["a-1", "b-2"], "enumNames": ["Alpha", "Beta"]}
TITLED: dict[str, Any] = {"type": "string", "oneOf": [{"const": "a", "title": "Alpha"}]}
SEVERAL: dict[str, Any] = {
    "type": "array",
    "items": {"anyOf": [{"const": one, "title": one.upper()} for one in "xyz"]},
    "minItems": 1,
    "maxItems": 2,
}
COUNT = {"type": "integer", "minimum": 1, "maximum": 10}
TIME = "2026-01-31T14:30:00Z"


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "no", False),
        (COUNT, " 10 ", 10),
        ({"type": "number", "maximum": 0}, "-2.5e-1", -0.25),
        ({"type": "string", "minLength": 2}, "12", "12"),
        ({"type": "string", "format": "email"}, "me@example.com", "me@example.com"),
        ({"type": "string", "format": "uri"}, "https://example.com/a", "https://example.com/a"),
        ({"type": "string", "format": "date"}, "2026-01-31", "2026-01-31"),
        ({"type": "string", "format": "date-time"}, TIME, TIME),
        (CHOICE, "beta", "b-2"),
        (CHOICE, "a-1", "a-1"),
        (TITLED, "Alpha", "a"),
        (SEVERAL, "X, y,x", ["x", "y"]),
    ],
)
def test_an_answer_that_fits_is_a_value(schema: Any, answer: str, value: Value) -> None:
    assert FormField.from_schema(schema).parse(answer) == value


@pytest.mark.parametrize(
    ("schema", "answer", "told"),
    [
        ({"type": "boolean"}, "perhaps", "yes or no"),
        (COUNT, "0", "a whole number, at least 1, at most 10"),
        (COUNT, "11", "at most 10"),
        ({"type": "integer", "maximum": 2_147_483_647}, "x", "at most 2147483647"),
        (COUNT, "2.5", "a whole number"),
        (COUNT, "²", "a whole number"),
        ({"type": "number"}, "1e999", "a number"),
        ({"type": "number"}, "nan", "a number"),
        ({"type": "string"}, " ", "text"),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "a", "text, at least 2 characters"),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "abcd", "at most 3 characters"),
        ({"type": "string", "format": "email"}, "me@there", "an e-mail address"),
        ({"type": "string", "format": "uri"}, "example.com", "an address such as https://"),
        ({"type": "string", "format": "date"}, "31.1.2026", "a date such as 2026-01-31"),
        ({"type": "string", "format": "date"}, "20260131", "a date such as 2026-01-31"),
        ({"type": "string", "format": "date-time"}, "2026-01-31", "a date and time such as"),
        (CHOICE, "gamma", "one of Alpha, Beta"),
        (SEVERAL, "x, q", "some of X, Y, Z, with commas between them"),
        (SEVERAL, "x, y, z", "at most 2 of them"),
        (SEVERAL, "", "at least 1 of them"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(schema: Any, answer: str, told: str) -> None:
    field = FormField.from_schema(schema)
    with pytest.raises(ValueError):  # noqa: PT011
        field.parse(answer)
    assert told in field.requirement


@pytest.mark.parametrize("kind", ["object", "null", "array", None])
def test_a_form_has_no_field_that_cannot_be_asked_for(kind: str | None) -> None:
    with pytest.raises(ValueError, match="a form cannot have a field of the type"):
        FormField.from_schema({"type": kind})


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({**CHOICE, "default": "b-2"}, "Beta"),
        ({**SEVERAL, "default": ["x", "z"]}, "X, Z"),
        ({"type": "boolean", "default": False}, "no"),
        ({**COUNT, "default": 3}, "3"),
        ({**COUNT, "default": 30}, ""),
        (COUNT, ""),
    ],
)
def test_a_default_is_offered_if_it_fits(schema: Any, text: str) -> None:
    assert FormField.from_schema(schema).default_text == text
