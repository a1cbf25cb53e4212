"""The `image_generate` tool."""

from functools import partial

from pydantic import Field

from agent_service.models.media.failures import MediaFailed
from agent_service.models.pictures import picture_type
from agent_service.tools.base import (
    Effect,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.media.made_files import make_file
from agent_service.tools.media.pictures import ImageModel, PictureRequest, Shape
from agent_service.tools.texts import same_file

MAX_SOURCES = 4
MAX_SOURCE_BYTES = 10_000_000


class ImageGenerateArguments(ToolArguments):
    """Makes a picture from a description, or changes pictures.

    The picture is a file of the workspace that goes along with your answer. It takes up to a minute
    and costs some cents.
    """

    prompt: str = Field(
        min_length=1,
        max_length=8_000,
        description="What the picture shows, or what to change, in detail.",
    )
    aspect_ratio: Shape = Field(default="landscape", description="Its shape.")
    images: list[str] = Field(
        default=[],
        max_length=MAX_SOURCES,
        description="Pictures of the sandbox to change or to combine, such as uploads/cat.jpg.",
    )


class ImageGenerate(UsualTool[ImageGenerateArguments]):
    """Makes pictures."""

    name = "image_generate"
    toolset = "image_gen"
    arguments = ImageGenerateArguments
    usual_effect = Effect.KEYED

    def __init__(self, painter: ImageModel | None) -> None:
        self._painter = painter

    def writes(self, arguments: ImageGenerateArguments) -> frozenset[str]:
        """Wait for calls that change the pictures."""
        return frozenset(map(same_file, arguments.images))

    async def run(self, arguments: ImageGenerateArguments, context: ToolContext) -> ToolResult:
        painter = self._painter
        assert painter is not None, "it is off without one"

        async def paint() -> bytes:
            sources = [await _read(path, context) for path in arguments.images]
            wanted = PictureRequest(arguments.prompt, arguments.aspect_ratio, sources)
            model, most = painter.model_for(wanted), wanted.most(painter.made_tokens)
            make = partial(painter.paint, wanted)
            data = await context.spend(model, painter.provider, most, make)
            if data and picture_type(data) is None:
                raise MediaFailed("The provider answered with something that is no picture.")
            return data

        return await make_file(context, "picture", ".png", paint)


async def _read(path: str, context: ToolContext) -> bytes:
    data = await context.files.read(path, max_bytes=MAX_SOURCE_BYTES)
    if picture_type(data) is None:
        raise ToolFailed(f"{path} is not a PNG, JPEG, GIF or WebP picture.")
    return data
