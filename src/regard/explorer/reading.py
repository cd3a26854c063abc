"""From the bytes of a request to what it asks for: JSON, or a form with files in it."""

import base64
import binascii
from typing import Any, TypeVar

from PIL import Image
from pydantic import ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request

from regard.data.images import open_image, read_image
from regard.explorer.limits import PICTURES, PIXELS
from regard.explorer.refusals import Refusal, explained
from regard.explorer.schemas import Asked

A = TypeVar("A", bound=Asked)
JSON, FORM = "application/json", "multipart/form-data"
FIELDS = 64  # of a form


async def read(request: Request, kind: type[A]) -> A:
    """The request as `kind`, or a refusal that says what is wrong with it."""
    media, options = parse_options_header(request.headers.get("content-type", ""))
    media = media.decode("latin-1").strip().lower()
    if media not in (JSON, FORM):
        raise Refusal(415, f"the content type is {media or 'missing'}; send {JSON} or {FORM}")
    # The form's parser would look for any decoder of Python, and some make half characters.
    if (charset := options.get(b"charset", b"utf-8").decode("latin-1").lower()) not in ("utf-8", "utf8"):
        raise Refusal(415, f"the charset is {charset!r}; send UTF-8")
    try:
        if media == FORM:  # in which everything is text
            return kind.model_validate(await _from_form(request), strict=False)
        body = await request.body()
        body.decode("utf-8")
        return kind.model_validate_json(body)
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the body is not UTF-8 (byte {error.start})") from error
    except ValidationError as error:
        raise explained(error) from error
    except ClientDisconnect as error:
        raise Refusal(499, "the client has left") from error


async def _from_form(request: Request) -> dict[str, Any]:
    """Files become base64; a field that comes again is a list."""
    values: dict[str, Any] = {}
    try:
        async with request.form(max_files=PICTURES, max_fields=FIELDS) as form:
            for name in form:
                several = [await _told(value) for value in form.getlist(name)]
                values[name] = several if len(several) > 1 else several[0]
    except (MultiPartException, HTTPException, UnicodeDecodeError, ValueError) as error:
        raise Refusal(400, "the form cannot be read; send it as curl -F does") from error
    return values


async def _told(value: UploadFile | str) -> str:
    return value if isinstance(value, str) else base64.b64encode(await value.read()).decode("ascii")


def picture(encoded: str, place: str) -> tuple[bytes, int]:
    """The file in a base64 text, and how many pixels its header says it has."""
    try:
        plain = encoded.partition(",")[2] if encoded.startswith("data:") else encoded
        content = base64.b64decode("".join(plain.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal(422, f"{place} is not base64; encode the bytes of a PNG or JPEG file") from error
    return content, pixels_of(content, place)


def pixels_of(content: bytes, place: str) -> int:
    """How many pixels a picture has by its header, which is all that is read. No other decoder than the allowed ones
    looks at it: some run other programs."""
    try:
        with open_image(content) as image:
            return image.width * image.height
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Refusal(413, f"{place} has more than {PIXELS:,} pixels; make it smaller") from error
    except Exception as error:  # decoders raise many things
        raise Refusal(422, f"{place} is not a readable picture; send a PNG or JPEG file") from error


def decoded(content: bytes, channels: int) -> Image.Image:
    """Its pixels, upright, grey or coloured."""
    return read_image(content, channels)
