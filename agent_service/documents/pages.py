"""The text of PDF files, page after page."""

import io
import logging

from agent_service.documents.parts import Text, Unreadable


def read(data: bytes, text: Text) -> None:
    """Add the lines of each page below a line with its number."""
    import pypdf
    from pypdf.errors import PyPdfError

    # All that a file can have wrong in it, by what reads it.
    wrong = (
        *(PyPdfError, ValueError, LookupError, TypeError, AttributeError, AssertionError),
        *(ArithmeticError, RecursionError, NotImplementedError, EOFError),
    )
    logging.disable()  # What is wrong with a file is of interest to nobody here.
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("it is encrypted")
        count = len(reader.pages)
    except wrong as error:
        raise Unreadable("it is broken") from error
    for number in range(count):
        text.add(f"[page {number + 1} of {count}]")
        try:
            said = reader.pages[number].extract_text().strip("\n")
        except wrong:
            said = "[it cannot be read]"
        text.add(said or "[no text: it may be a picture]")
