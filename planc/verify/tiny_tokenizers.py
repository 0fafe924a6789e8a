"""Tokenizers that know bytes, for tiny pipelines. No network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MAX_TOKENS = 1024
CLIP_LENGTH = 77
"""Positions of CLIP's text encoder."""
IMAGE_PIXELS = 56 * 56
"""Pixels that a tiny processor makes of an image: four tokens of text, where the release makes a thousand."""

CHAT_SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VISION_SPECIALS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
T5_SPECIALS = ("<pad>", "</s>")
CLIP_SPECIALS = ("<|startoftext|>", "<|endoftext|>")

_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Qwen-Image's pipelines cut a fixed number of tokens, their system messages, from the front. With these words as a
# token each, the messages are as long here as for the release's tokenizer, and the prompt's bytes begin where they must.
_SYSTEM_WORDS = """
system user assistant Describe color ), 's Ġthe Ġimage Ġby Ġdetailing Ġcolor Ġshape Ġsize Ġtexture Ġquantity Ġtext
Ġspatial Ġrelationships Ġof Ġobjects Ġand Ġbackground Ġkey Ġfeatures Ġinput Ġ( Ġthen Ġexplain Ġhow Ġuser Ġinstruction
Ġshould Ġalter Ġor Ġmodify ĠGenerate Ġa Ġnew Ġthat Ġmeets Ġrequirements Ġwhile Ġmaintaining Ġconsistency Ġwith
Ġoriginal Ġwhere Ġappropriate
"""


def tokenizer(class_name: str) -> Any:
    """A tokenizer, or a processor that holds one, in place of a `class_name`.

    Raises:
        KeyError: planc cannot make one for that class.
    """
    return _TOKENIZERS[class_name]()


def _bytes(specials: tuple[str, ...], *, words: str = "", frame: str = "$A", **keywords: Any) -> Any:
    """A tokenizer of bytes, and of `words`; `frame` says which special tokens stand around a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*letters, *specials, *words.split()])}
    model = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    model.post_processor = processors.TemplateProcessing(
        single=frame, special_tokens=[(token, vocabulary[token]) for token in specials if token in frame]
    )
    return PreTrainedTokenizerFast(tokenizer_object=model, additional_special_tokens=list(specials), **keywords)


def _chat(specials: tuple[str, ...] = CHAT_SPECIALS, **keywords: Any) -> Any:
    made = _bytes(
        specials,
        pad_token="<|endoftext|>",  # noqa: S106  # a token of text
        eos_token="<|im_end|>",  # noqa: S106  # a token of text
        model_max_length=MAX_TOKENS,
        **keywords,
    )
    made.chat_template = _CHAT
    return made


def _qwen2(**keywords: Any) -> Any:
    return _chat((*CHAT_SPECIALS, *VISION_SPECIALS), words=_SYSTEM_WORDS, **keywords)


def _qwen2_vl() -> Any:
    """A processor that gives what Qwen2VLProcessor does: that one loads no video processor without torchvision."""
    from transformers import PaddleOCRVLProcessor
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    return PaddleOCRVLProcessor(
        image_processor=Qwen2VLImageProcessorPil(min_pixels=IMAGE_PIXELS, max_pixels=IMAGE_PIXELS),
        tokenizer=_qwen2(extra_special_tokens={"image_token": "<|image_pad|>"}),
    )


def _t5() -> Any:
    return _bytes(
        T5_SPECIALS,
        frame="$A </s>",
        pad_token="<pad>",  # noqa: S106  # a token of text
        eos_token="</s>",  # noqa: S106  # a token of text
        model_max_length=MAX_TOKENS,
    )


def _clip() -> Any:
    return _bytes(
        CLIP_SPECIALS,
        frame="<|startoftext|> $A <|endoftext|>",
        bos_token="<|startoftext|>",  # noqa: S106  # a token of text
        eos_token="<|endoftext|>",  # noqa: S106  # a token of text
        pad_token="<|endoftext|>",  # noqa: S106  # a token of text
        model_max_length=CLIP_LENGTH,
    )


_TOKENIZERS: Mapping[str, Callable[[], Any]] = {
    "AutoProcessor": _chat,
    "Qwen2TokenizerFast": _chat,
    "Qwen2Tokenizer": _qwen2,
    "Qwen2VLProcessor": _qwen2_vl,
    "CLIPTokenizer": _clip,
    "T5TokenizerFast": _t5,
}
