"""How a script encodes prompts before the pipeline's call: where the encoder is, and padded."""

from __future__ import annotations

from planc.emit.context import Encode, Keyword
from planc.emit.literal import call, literal
from planc.ir import TargetProgram

LENGTH = "text_tokens"
"""Key of a shape for the text's length, where the pipeline's call takes no such keyword."""
NEGATIVE = "negative_prompt"
"""Keyword of `__call__` that every pipeline of diffusers takes a negative prompt by."""


def length_key(target: TargetProgram) -> str:
    """Key of a shape for the text's length; empty where neither the call nor the script needs it."""
    text = target.text
    return text.length_keyword or (LENGTH if text.is_padded else "")


def encode_context(target: TargetProgram) -> Encode | None:
    """What the script's `encode` says; None where the pipeline encodes."""
    text = target.text
    if not text.is_encoded_first:
        return None
    length = f"shape[{literal(length_key(target))}]" if length_key(target) else ""
    arguments = ["prompt", "device=pipe.text_encoder.device"]
    if text.image_area is not None:
        arguments.append("image=image")
    if text.encode_takes_length:
        arguments.append(f"{text.length_keyword}={length}")
    arguments += [f"{item.name}=args.{item.name}" for item in target.call if item.name in text.encode_keywords]
    arguments += [f"{name}={literal(value)}" for name, value in text.encode_constants]
    return Encode(
        denoiser=target.denoisers[0],
        call=call(f"encoded = pipe.{text.encode}", arguments, indent=8),
        returns=tuple(_returned(target, index) for index in range(len(text.returns))),
        is_padded=text.is_padded,
        length=length,
        embeds=literal(text.returns[0]),
        mask=literal(text.mask),
        image=_image(target),
        image_size=""
        if text.image_area is None
        else f"{_function(target)}({text.image_area}, fitted.width / fitted.height)",
        negative=_negative(target),
    )


def image_size_import(target: TargetProgram) -> str:
    """The import of the function that sizes an input image; empty where the script needs none."""
    if not target.text.is_encoded_first or target.text.image_area is None:
        return ""
    module, _, name = target.text.image_size_function.rpartition(".")
    return f"from {module} import {name}"


def _image(target: TargetProgram) -> str:
    name = next((item.name for item in target.call if item.kind == "image"), "")
    return f"fit(args.{name}, shape)" if target.fits_image else f"args.{name}"


def _function(target: TargetProgram) -> str:
    return target.text.image_size_function.rpartition(".")[2]


def _returned(target: TargetProgram, index: int) -> Keyword:
    name = target.text.returns[index]
    where = "device" if name == target.text.mask else "device, dtype"
    return Keyword(name=literal(name), value=f"encoded[{index}].to({where})")


def _negative(target: TargetProgram) -> str:
    """The negative prompt, where the pipeline runs one."""
    is_said = any(item.name == NEGATIVE for item in target.call)
    if target.text.negative == "none" or (target.text.negative == "given" and not is_said):
        return ""
    return f"args.{NEGATIVE}" if is_said else '""'
