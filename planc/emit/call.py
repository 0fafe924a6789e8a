"""The keywords of the pipeline's call, and the options of the script that set them."""

from __future__ import annotations

from collections.abc import Iterator

from planc.emit.context import Keyword
from planc.emit.encode import LENGTH, NEGATIVE, length_key
from planc.emit.literal import call, literal
from planc.ir import Argument, TargetProgram

_TYPES = {
    "text": "str",
    "integer": "int",
    "number": "float",
    "integers": "int",
    "numbers": "float",
    "image": "Path",
}


def shape(target: TargetProgram, index: int) -> dict[str, int]:
    """Keywords of the shape at `index`: what the call, or the script, needs of it."""
    said = target.shapes[index]
    keywords = {"height": said.height, "width": said.width}
    if said.num_frames is not None:
        keywords["num_frames"] = said.num_frames
    if key := length_key(target):
        keywords[key] = said.text_tokens
    if any(other.batch != 1 for other in target.shapes):
        keywords[target.batch_keyword] = said.batch
    return keywords


def spread_shape(target: TargetProgram) -> str:
    """The call takes the whole shape, but for a text length that only the script needs."""
    if length_key(target) == LENGTH:
        return f'**{{key: size for key, size in shape.items() if key != "{LENGTH}"}}'
    return "**shape"


def call_keywords(target: TargetProgram) -> Iterator[Keyword]:
    """Keywords of the call beside the prompt and the shape."""
    for item in target.call:
        if item.name == "prompt" or (item.name == NEGATIVE and target.text.is_encoded_first):
            continue
        is_fitted = item.kind == "image" and target.fits_image
        value = f"fit(args.{item.name}, shape)" if is_fitted else f"args.{item.name}"
        yield Keyword(name=literal(item.name), value=value)


def _flag(keyword: str) -> str:
    return literal("--" + keyword.replace("_", "-"))


def shape_option(keyword: str) -> str:
    """The statement that adds an option for a keyword of the shapes."""
    return call("parser.add_argument", [_flag(keyword), "type=int"], indent=4)


def option(item: Argument) -> str:
    """The statement that adds an option for a keyword of the call."""
    arguments = []
    if item.kind == "flag":
        arguments.append("action=argparse.BooleanOptionalAction")
    else:
        arguments.append(f"type={_TYPES[item.kind]}")
    if item.kind in ("integers", "numbers"):
        arguments.append('nargs="+"')
    if item.value is None:
        arguments.append("required=True")
    else:
        arguments.append(f"default={literal(item.value, indent=8, before=len('default='))}")
    return call("parser.add_argument", [_flag(item.name), *arguments], indent=4)
