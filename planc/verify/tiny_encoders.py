"""Tiny text encoders with random weights, for tiny pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planc.verify import tiny_tokenizers
from planc.verify.tiny_tokenizers import CLIP_LENGTH, CLIP_SPECIALS, MAX_TOKENS, T5_SPECIALS, VISION_SPECIALS

TEXT_LAYERS = 31
"""Layers of a tiny decoder: FLUX.2's pipelines take hidden states up to the 30th (diffusers 0.42.1)."""
VOCABULARY = 320
"""At least as many tokens as the largest of the tokenizers has."""


def encoder(class_name: str, denoiser: Mapping[str, Any]) -> Any:
    """A text encoder of class `class_name`, as wide as the denoiser's config wants its text.

    Raises:
        KeyError: planc cannot make one of that class.
    """
    return _ENCODERS[class_name](denoiser)


def _ids(class_name: str, specials: tuple[str, ...]) -> list[int]:
    found: list[int] = tiny_tokenizers.tokenizer(class_name).convert_tokens_to_ids(list(specials))
    return found


def _qwen3(denoiser: Mapping[str, Any]) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**_stacked(denoiser)))


def _mistral3(denoiser: Mapping[str, Any]) -> Any:
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration

    vision = {
        "model_type": "pixtral",
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 16,
    }
    text = {"model_type": "mistral", **_stacked(denoiser)}
    return Mistral3ForConditionalGeneration(Mistral3Config(text_config=text, vision_config=vision))


def _stacked(denoiser: Mapping[str, Any]) -> dict[str, Any]:
    """A decoder whose three stacked hidden states are as wide as the denoiser's text input."""
    return {**_decoder(denoiser["joint_attention_dim"] // 3), "num_hidden_layers": TEXT_LAYERS, "head_dim": 4}


def _decoder(width: int) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": MAX_TOKENS,
    }


def _qwen2_5_vl(denoiser: Mapping[str, Any]) -> Any:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    width = denoiser["joint_attention_dim"]
    pairs = width // 4 // 2  # of a head's features, which the three axes of the position share
    rope = {"rope_type": "default", "mrope_section": [pairs - 2 * (pairs // 4), pairs // 4, pairs // 4]}
    vision = {
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 2,
        "out_hidden_size": width,
        "fullatt_block_indexes": [0],
    }
    ids = _ids("Qwen2Tokenizer", VISION_SPECIALS)
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    text = {**_decoder(width), "rope_parameters": rope, "bos_token_id": None, "eos_token_id": None}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **dict(zip(names, ids, strict=True)))
    return Qwen2_5_VLForConditionalGeneration(config)


def _clip_text(denoiser: Mapping[str, Any]) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel

    start, end = _ids("CLIPTokenizer", CLIP_SPECIALS)
    config = CLIPTextConfig(
        vocab_size=VOCABULARY,
        hidden_size=denoiser["pooled_projection_dim"],
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=CLIP_LENGTH,
        bos_token_id=start,
        eos_token_id=end,
        pad_token_id=end,
    )
    return CLIPTextModel(config)


def _t5_encoder(denoiser: Mapping[str, Any]) -> Any:
    from transformers import T5Config, T5EncoderModel

    return T5EncoderModel(T5Config(**_encoder(denoiser)))


def _umt5_encoder(denoiser: Mapping[str, Any]) -> Any:
    from transformers import UMT5Config, UMT5EncoderModel

    return UMT5EncoderModel(UMT5Config(**_encoder(denoiser)))


def _encoder(denoiser: Mapping[str, Any]) -> dict[str, Any]:
    pad, end = _ids("T5TokenizerFast", T5_SPECIALS)
    keys = ("joint_attention_dim", "text_dim", "caption_channels")
    return {
        "vocab_size": VOCABULARY,
        "d_model": next(denoiser[key] for key in keys if key in denoiser),
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 2,
        "num_heads": 4,
        "pad_token_id": pad,
        "eos_token_id": end,
    }


_ENCODERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "Qwen3ForCausalLM": _qwen3,
    "Mistral3ForConditionalGeneration": _mistral3,
    "Qwen2_5_VLForConditionalGeneration": _qwen2_5_vl,
    "CLIPTextModel": _clip_text,
    "T5EncoderModel": _t5_encoder,
    "UMT5EncoderModel": _umt5_encoder,
}
