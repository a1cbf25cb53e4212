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


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "no", False),
        (COUNT, " 10 ", 10),
        ({"type": "number", "maximum": 0}, "-2.5e-1", -0.25),
        ({"type": "string", "minLength": 2}, "12", "12"),
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
        (COUNT, "2.5", "a whole number, at least 1, at most 10"),
        (COUNT, "²", "a whole number"),
        ({"type": "number"}, "1e999", "a number"),
        ({"type": "number"}, "nan", "a number"),
        ({"type": "string", "format": "date"}, " ", "text, format date"),
        ({"type": "string", "minLength": 2}, "", "text, characters at least 2"),
        (CHOICE, "gamma", "one of Alpha, Beta"),
        (SEVERAL, "x, q", "some of X, Y, Z, with commas between them"),
        (SEVERAL, "q", "items at least 1, items at most 2"),
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
        (COUNT, ""),
    ],
)
def test_a_default_is_offered(schema: Any, text: str) -> None:
    assert FormField.from_schema(schema).default_text == text
