"""Saves a tiny random pipeline of a card's structure: what a laptop and the proofs run on. No network.

Weights are random but the same for the same seed; the tokenizer knows bytes only. Images of it mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planc.catalog.card import Card, Size
from planc.catalog.expression import Number

TEXT_LAYERS = 31
"""Layers of a tiny text encoder: FLUX.2's pipelines take hidden states up to the 30th (diffusers 0.42.1)."""
VOCABULARY = 320
MAX_TOKENS = 1024

_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Tiny:
    """A saved tiny pipeline."""

    folder: Path
    size: Size
    """A size of image for it, in pixels."""
    parameters: int
    """Parameters of its denoiser."""


def config(card: Card, sizes: Mapping[str, Number] | None) -> dict[str, Any]:
    """The card's tiny config with the flags of the plan's checkpoint: the same structure, small."""
    flags = {key: item for key, item in (sizes or {}).items() if isinstance(item, bool)}
    return {**card.facts.tiny.config, **{key: item for key, item in flags.items() if key in card.facts.tiny.config}}


def save(card: Card, pipeline: str, sizes: Mapping[str, Number] | None, folder: Path, *, seed: int = 0) -> Tiny:
    """Write a tiny pipeline of class `pipeline` to `folder`, in float32.

    Raises:
        KeyError: planc cannot make a tiny text encoder of the pipeline's class.
        OSError: the folder cannot be written.
    """
    import diffusers
    import torch
    from transformers.utils import logging

    diffusers.logging.disable_progress_bar()
    logging.disable_progress_bar()
    facts = card.facts.pipelines[pipeline]
    torch.manual_seed(seed)
    denoiser_config = config(card, sizes)
    transformer = getattr(diffusers, card.class_name)(**denoiser_config)
    vae = getattr(diffusers, facts.components["vae"].class_)(**card.facts.tiny.vae)
    text_encoder = _TEXT_ENCODERS[facts.components["text_encoder"].class_](denoiser_config)
    pipe = getattr(diffusers, pipeline)(
        scheduler=getattr(diffusers, facts.components["scheduler"].class_)(),
        vae=vae.eval(),
        text_encoder=text_encoder.eval(),
        tokenizer=_tokenizer(),
        **{name: transformer.eval() for name in facts.denoisers},
    )
    pipe.save_pretrained(folder)
    parameters = sum(parameter.numel() for parameter in transformer.parameters())
    return Tiny(folder=folder, size=card.facts.tiny.size, parameters=parameters)


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for special in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"):
        vocabulary[special] = len(vocabulary)
    model = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=model,
        pad_token="<|endoftext|>",  # noqa: S106  # a token of text
        eos_token="<|im_end|>",  # noqa: S106  # a token of text
        additional_special_tokens=["<|im_start|>"],
        model_max_length=MAX_TOKENS,
    )
    tokenizer.chat_template = _CHAT
    return tokenizer


def _qwen3(denoiser: Mapping[str, Any]) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**_decoder(denoiser)))


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
    text = {"model_type": "mistral", **_decoder(denoiser)}
    return Mistral3ForConditionalGeneration(Mistral3Config(text_config=text, vision_config=vision))


def _decoder(denoiser: Mapping[str, Any]) -> dict[str, Any]:
    """A decoder whose three stacked hidden states are as wide as the denoiser's text input."""
    return {
        "hidden_size": denoiser["joint_attention_dim"] // 3,
        "intermediate_size": 32,
        "num_hidden_layers": TEXT_LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": MAX_TOKENS,
    }


_TEXT_ENCODERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "Qwen3ForCausalLM": _qwen3,
    "Mistral3ForConditionalGeneration": _mistral3,
}
