"""The text of documents, as the usual programs write them and as somebody might to do harm."""

import asyncio
import io
import json
import zipfile
import zlib
from collections.abc import Callable
from datetime import datetime, time
from typing import Any

import docx
import openpyxl
import pypdf
import pytest
from fpdf import FPDF

from agent_service.tools.documents.reader import Document, Documents, NoDocument, kind_of
from agent_service.tools.documents.worker import BODY, MAX_PART_BYTES

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def _read(kind: str, data: bytes) -> Document:
    return asyncio.run(Documents().read(kind, data))


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def _package(**parts: str | bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return file.getvalue()


def _swollen(part: str, data: bytes) -> bytes:
    """A document whose archive says that a part is too large."""
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.getinfo(part).file_size = MAX_PART_BYTES + 1
        archive.comment = b"so that the list of parts is written anew"
    return file.getvalue()


def _pdf_bomb(layers: int) -> bytes:
    """A page whose text is compressed so often, and takes 200 MB."""
    packer, line = zlib.compressobj(1), b"BT /F 1 Tf (a) Tj ET\n" * 50_000
    text = b"".join([*(packer.compress(line) for _ in range(200)), packer.flush()])
    for _ in range(layers - 1):
        text = zlib.compress(text, 9)
    font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    page = f"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F {font}>>>>>>"
    stream = f"<</Length {len(text)}/Filter[{'/FlateDecode' * layers}]>>stream\n"
    objects = (
        *(b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"),
        *(page.encode(), stream.encode() + text + b"\nendstream"),
    )
    told = [b"%d 0 obj\n%b\nendobj\n" % each for each in enumerate(objects, 1)]
    return b"".join([b"%PDF-1.4\n", *told, b"trailer<</Root 1 0 R>>\nstartxref\n0\n%%EOF"])


def _word(body: str, **more: str) -> bytes:
    document = f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    return _package(**{BODY: document, **more})


def _pdf(*pages: str) -> bytes:
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    for page in pages:
        pdf.add_page()
        for line in page.splitlines():
            pdf.cell(text=line, new_x="LMARGIN", new_y="NEXT")
    return bytes(pdf.output())


def test_a_word_document() -> None:
    document = docx.Document()
    document.add_heading("Plan", 0)
    document.add_heading("First steps", 2)
    document.add_paragraph("One\ttwo")
    document.add_paragraph("three\nfour")
    table = document.add_table(2, 2)
    for index, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"cell {index}"
    table.cell(1, 1).add_table(1, 1).cell(0, 0).text = "inside"
    document.add_paragraph("The end")
    assert _read("docx", _saved(document.save)).lines == [
        *("# Plan", "## First steps", "One\ttwo", "three", "four"),
        *("| cell 0 | cell 1 |", "| cell 2 | cell 3 inside |", "The end"),
    ]


def test_what_a_word_document_hides_or_says_twice() -> None:
    run = "<w:r><w:t>{}</w:t></w:r>"
    body = (
        f"<w:p>{run.format('kept ')}<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
        f"<w:ins>{run.format('new')}</w:ins></w:p>"
        '<w:p><w:pPr><w:numPr><w:ilvl w:val="1"/></w:numPr></w:pPr>'
        f"{run.format('point')}</w:p>"
        f'<mc:AlternateContent xmlns:mc="x"><mc:Choice><w:p>{run.format("box")}</w:p></mc:Choice>'
        f"<mc:Fallback><w:p>{run.format('box')}</w:p></mc:Fallback></mc:AlternateContent>"
    )
    notes = f'<w:footnotes xmlns:w="{W}"><w:p/><w:p>{run.format("see there")}</w:p></w:footnotes>'
    lines = _read("docx", _word(body, **{"word/footnotes.xml": notes})).lines
    assert lines == ["kept new", "  - point", "box", "[notes]", "see there"]


def test_an_excel_workbook() -> None:
    book = openpyxl.Workbook()
    first: Any = book.active
    first.title = "Sales & more"
    first.append(["Month", "Amount", "Done"])
    first.append([datetime(2026, 3, 1), 12.5, True])  # noqa: DTZ001 - workbooks know no zones
    first.append([datetime(2026, 3, 1, 12, 30), time(8, 15), None])  # noqa: DTZ001 - likewise
    first["D5"] = "=SUM(B2:B3)"
    first["A6"] = "two\nlines"
    first["B6"] = 46082  # a number that would be a date
    second = book.create_sheet("Empty")
    assert second.max_row == 1
    assert _read("xlsx", _saved(book.save)).lines == [
        *("[sheet Sales & more]", "1:\tMonth\tAmount\tDone", "2:\t2026-03-01\t12.5\tTRUE"),
        *("3:\t2026-03-01 12:30:00\t08:15:00", "5:\t\t\t\t=SUM(B2:B3)", "6:\ttwo lines\t46082"),
        "[sheet Empty]",
    ]


def test_a_pdf() -> None:
    lines = _read("pdf", _pdf("Hello there\nsecond line", "", "last")).lines
    assert lines == [
        *("[page 1 of 3]", "Hello there", "second line"),
        *("[page 2 of 3]", "[no text; the page may be a picture]", "[page 3 of 3]", "last"),
    ]


def test_a_pdf_that_is_locked() -> None:
    def locked(password: str) -> bytes:
        writer = pypdf.PdfWriter(io.BytesIO(_pdf("secret")))
        writer.encrypt(password, "owner", algorithm="AES-256")
        return _saved(writer.write)

    assert _read("pdf", locked("")).lines[1] == "secret"
    with pytest.raises(NoDocument, match="encrypted"):
        _read("pdf", locked("password"))


def test_a_notebook() -> None:
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "3", "image/png": "aaaa"}},
        {"output_type": "error", "evalue": "x", "traceback": ["\x1b[31mNameError\x1b[0m: x"]},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": "print(1)\nprint(2)", "outputs": outputs},
    ]
    assert _read("ipynb", json.dumps({"cells": cells}).encode()).lines == [
        *("[cell 1: markdown]", "# Title", "text", "[cell 2: code]", "print(1)", "print(2)"),
        *("[stream]", "1", "2", "[execute_result]", "3", "[image/png]"),
        *("[error]", "NameError: x"),
    ]


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
BOMB = f'<!DOCTYPE a [<!ENTITY e0 "ha">{ENTITIES}]><w:document xmlns:w="{W}">&e11;</w:document>'


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        ("docx", b"PK\x03\x04 and so on", "damaged"),
        ("docx", _package(a="b"), "not a Word document"),
        ("docx", _word("<w:p>"), "damaged"),
        ("docx", _package(**{BODY: BOMB}), "damaged"),
        ("docx", _swollen(BODY, _package(**{BODY: ""})), "too large"),
        ("xlsx", _swollen("xl/styles.xml", _saved(openpyxl.Workbook().save)), "too large"),
        ("xlsx", _package(**{"xl/a": "b"}), "damaged"),
        ("pdf", b"%PDF-1.7\nnothing", "damaged"),
        ("ipynb", b"{", "damaged"),
        ("ipynb", b'{"cells": [1]}', "damaged"),
        ("ipynb", b"[" * 100_000, "damaged"),
    ],
)
def test_what_is_no_document(kind: str, data: bytes, why: str) -> None:
    with pytest.raises(NoDocument, match=why):
        _read(kind, data)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_pdf_that_unpacks_to_very_much_is_not_read(layers: int) -> None:
    data = _pdf_bomb(layers)
    assert len(data) < 3_000_000
    lines = _read("pdf", data).lines
    assert lines == ["[page 1 of 1]", "[this page cannot be read]"]


def test_a_document_is_read_once() -> None:
    async def twice() -> bool:
        documents, data = Documents(), _pdf("text")
        first = await documents.read("pdf", data)
        return await documents.read("pdf", data) is first

    assert asyncio.run(twice())


@pytest.mark.parametrize(
    ("path", "data", "kind"),
    [
        ("a.PDF", b"\n%PDF-1.4", "pdf"),
        ("a.pdf", b"text", ""),
        ("a.docm", b"PK\x03\x04", "docx"),
        ("a.xlsm", b"PK\x03\x04", "xlsx"),
        ("a.docx", b"text", ""),
        ("dir.pdf/a.txt", b"%PDF-", ""),
        ("a.ipynb", b"{}", "ipynb"),
        ("a.zip", b"PK\x03\x04", ""),
    ],
)
def test_a_name_and_a_beginning_make_a_document(path: str, data: bytes, kind: str) -> None:
    assert kind_of(path, data) == kind
