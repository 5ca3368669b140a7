"""Tiny document models of real architectures, random weights, built from their own configs: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers
from torch import Tensor

VOCABULARY = 96
PAD, BOS, EOS, IMAGE, VIDEO, START, END = 0, 1, 2, 90, 91, 92, 93
TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS,
}  # fmt: skip
MROPE = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
FACTOR = 8.0
SIDE = 16
"""Pixels of a picture's side for encoders of fixed size."""


def _qwen25() -> Any:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    config = Qwen2_5_VLConfig(
        text_config=TEXT | {"rope_parameters": MROPE},
        vision_config={"depth": 2, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4,
                       "out_hidden_size": 32, "window_size": 16, "fullatt_block_indexes": [1]},
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START, vision_end_token_id=END,
        tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen2_5_VLForConditionalGeneration(config)


def _qwen3() -> Any:
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    config = Qwen3VLConfig(
        text_config=TEXT | {"head_dim": 8, "rope_parameters": MROPE},
        vision_config={"depth": 2, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4,
                       "out_hidden_size": 32, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]},
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START, vision_end_token_id=END,
    )  # fmt: skip
    return Qwen3VLForConditionalGeneration(config)


def _paddle() -> Any:
    from transformers import PaddleOCRVLConfig, PaddleOCRVLForConditionalGeneration

    config = PaddleOCRVLConfig(
        text_config=TEXT | {"head_dim": 8, "rope_parameters": MROPE},
        vision_config={"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                       "image_size": SIDE, "patch_size": 4},
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START, vision_end_token_id=END,
    )  # fmt: skip
    return PaddleOCRVLForConditionalGeneration(config)


def _glm() -> Any:
    from transformers import GlmOcrConfig, GlmOcrForConditionalGeneration

    config = GlmOcrConfig(
        text_config=TEXT | {"rope_parameters": MROPE},
        vision_config={"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4,
                       "out_hidden_size": 32, "image_size": SIDE},
        image_token_id=IMAGE, video_token_id=VIDEO, image_start_token_id=START, image_end_token_id=END,
        video_start_token_id=94, video_end_token_id=95,
    )  # fmt: skip
    return GlmOcrForConditionalGeneration(config)


def _idefics3(name: str) -> Callable[[], Any]:
    def build() -> Any:
        config = getattr(transformers, f"{name}Config")(
            text_config=TEXT | {"model_type": "llama"},
            vision_config={"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
                           "num_attention_heads": 2, "image_size": SIDE, "patch_size": 4},
            image_token_id=IMAGE, scale_factor=2, tie_word_embeddings=name == "SmolVLM",
        )  # fmt: skip
        return getattr(transformers, f"{name}ForConditionalGeneration")(config)

    return build


def _got() -> Any:
    from transformers import GotOcr2Config, GotOcr2ForConditionalGeneration

    config = GotOcr2Config(
        text_config=TEXT | {"model_type": "qwen2"},
        vision_config={"hidden_size": 16, "output_channels": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
                       "image_size": 64, "patch_size": 8, "mlp_dim": 16, "window_size": 4,
                       "global_attn_indexes": [1], "initializer_range": 0.05},
        image_token_index=IMAGE, image_seq_length=4,
    )  # fmt: skip
    return GotOcr2ForConditionalGeneration(config)


def _lighton() -> Any:
    from transformers import LightOnOcrConfig, LightOnOcrForConditionalGeneration

    config = LightOnOcrConfig(
        text_config=TEXT | {"model_type": "qwen3", "head_dim": 8},
        vision_config={"model_type": "pixtral", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
                       "num_attention_heads": 2, "head_dim": 8, "image_size": SIDE, "patch_size": 4},
        image_token_id=IMAGE, spatial_merge_size=2,
    )  # fmt: skip
    return LightOnOcrForConditionalGeneration(config)


def _gemma3() -> Any:
    """Not a document model, but layers with and without a sliding window, and scaled embeddings."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    config = Gemma3Config(
        text_config=TEXT | {"head_dim": 8, "sliding_window": 6, "num_hidden_layers": 3,
                            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
        vision_config={"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
                       "num_attention_heads": 2, "image_size": SIDE, "patch_size": 4},
        image_token_id=IMAGE, image_token_index=IMAGE, boi_token_index=START, eoi_token_index=END,
        mm_tokens_per_image=4,
    )  # fmt: skip
    return Gemma3ForConditionalGeneration(config)


def _florence2() -> Any:
    from transformers import Florence2Config, Florence2ForConditionalGeneration

    text = {
        "model_type": "bart", "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 1, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "max_position_embeddings": 128, "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS,
        "decoder_start_token_id": EOS, "forced_eos_token_id": None,
    }  # fmt: skip
    config = Florence2Config(
        text_config=text,
        vision_config={"depths": [1, 1, 1, 1], "embed_dim": [8, 8, 8, 16], "num_heads": [2, 2, 2, 2],
                       "num_groups": [2, 2, 2, 2], "window_size": 2, "projection_dim": 32, "drop_path_rate": 0.0,
                       "max_position_embeddings": 8, "max_temporal_embeddings": 4},
        image_token_id=IMAGE,
    )  # fmt: skip
    return Florence2ForConditionalGeneration(config)


def _donut() -> Any:
    from transformers import DonutSwinConfig, MBartConfig, VisionEncoderDecoderConfig, VisionEncoderDecoderModel

    encoder = DonutSwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, mlp_ratio=2.0
    )
    decoder = MBartConfig(
        vocab_size=VOCABULARY, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48,
        max_position_embeddings=128, is_decoder=True, add_cross_attention=True, is_encoder_decoder=False,
        scale_embedding=True, add_final_layer_norm=True, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS,
    )  # fmt: skip
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = BOS, PAD, EOS
    return VisionEncoderDecoderModel(config=config)


BUILDERS: dict[str, Callable[[], Any]] = {
    "paddleocr_vl": _paddle,
    "qwen2_5_vl": _qwen25,
    "qwen3_vl": _qwen3,
    "smolvlm": _idefics3("SmolVLM"),
    "idefics3": _idefics3("Idefics3"),
    "got_ocr2": _got,
    "glm_ocr": _glm,
    "lighton_ocr": _lighton,
    "gemma3": _gemma3,
    "florence2": _florence2,
    "donut": _donut,
}
"""Idefics3 is also the architecture of granite-docling-258M and SmolDocling."""
PICTURE_TOKENS = {"florence2": 5}
"""Of one picture; 4 where nothing is said."""
PATCHED = ("qwen2_5_vl", "qwen3_vl", "paddleocr_vl", "glm_ocr")
"""Models that take pictures as rows of patches with a grid."""


def build(name: str, seed: int = 0) -> Any:
    """A model in evaluation mode whose answers vary: weights larger than at the start of training."""
    torch.manual_seed(seed)
    model = BUILDERS[name]().eval().requires_grad_(False)
    for parameter_name, weight in model.named_parameters():
        if weight.dim() > 1 and ("embed" not in parameter_name or "embed_positions" in parameter_name):
            weight.data.mul_(FACTOR)
    model.generation_config.pad_token_id = PAD
    model.generation_config.eos_token_id = EOS
    model.generation_config.bos_token_id = BOS
    return model


def inputs(
    name: str, lengths: Sequence[int], pictures: bool = True, right: bool = False, seed: int = 1
) -> dict[str, Any]:
    """Prompts of these lengths, each with one picture, padded on one side."""
    noise = torch.Generator().manual_seed(seed)
    if name == "donut":
        return {"pixel_values": torch.randn(len(lengths), 3, 32, 32, generator=noise)}
    rows = []
    for length in lengths:
        text = torch.randint(3, 80, (length,), generator=noise).tolist()
        rows.append([BOS, START, *[IMAGE] * PICTURE_TOKENS.get(name, 4), END, *text] if pictures else [BOS, *text])
    width = max(map(len, rows))
    ids = [[*row, *[PAD] * (width - len(row))] if right else [*[PAD] * (width - len(row)), *row] for row in rows]
    mask = [[int(token != PAD) for token in row] for row in ids]
    made: dict[str, Any] = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    if pictures:
        made |= pixels(name, len(lengths), noise)
        if name in PATCHED:
            made["mm_token_type_ids"] = (made["input_ids"] == IMAGE).long()
        if name == "gemma3":
            made["token_type_ids"] = (made["input_ids"] == IMAGE).long()
    return made


def pixels(name: str, count: int, noise: torch.Generator) -> dict[str, Tensor]:
    """Pictures as this model's processor gives them."""
    if name in PATCHED:
        grid = torch.tensor([[1, 4, 4]] * count)
        if name == "paddleocr_vl":
            return {"pixel_values": torch.randn(count * 16, 3, 4, 4, generator=noise), "image_grid_thw": grid}
        return {"pixel_values": torch.randn(count * 16, 3 * 2 * 4 * 4, generator=noise), "image_grid_thw": grid}
    if name in ("smolvlm", "idefics3"):
        return {"pixel_values": torch.randn(count, 1, 3, SIDE, SIDE, generator=noise)}
    if name == "lighton_ocr":
        sizes = torch.tensor([[SIDE, SIDE]] * count)
        return {"pixel_values": torch.randn(count, 3, SIDE, SIDE, generator=noise), "image_sizes": sizes}
    side = {"got_ocr2": 64, "florence2": 64}.get(name, SIDE)
    return {"pixel_values": torch.randn(count, 3, side, side, generator=noise)}


CORPUS = (
    "# Quarterly report of the northern region\n\nRevenue grew by 12.5 % to 1,204 million in the third quarter, while"
    " costs stayed flat.\n\n<table><tr><th>Item</th><th>2023</th><th>2024</th></tr><tr><td>Paper</td><td>310</td></tr>"
    "</table>\n\n- the first item of a list\n- another one\n\nThe committee met on Tuesday and decided to go on as"
    " before, because nobody knew a better way. Ink, wood, stone, iron, copper, silver and gold were on the tables of"
    " the merchants; letters came from Hamburg, Lyon, Genoa and Prague."
)
SPECIAL = (
    "<pad>", "<s>", "</s>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>",
    "<row_1_col_1>",
)  # fmt: skip
TEMPLATE = (
    "{% for message in messages %}<s>{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
)


def tokenizer(size: int = 480) -> Any:
    """A byte-level BPE tokenizer, learnt from a few sentences."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=list(SPECIAL)
    )
    made.train_from_iterator([CORPUS], trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        additional_special_tokens=list(SPECIAL[3:]),
    )  # fmt: skip


def reader(side: int = 32, width: int = 64) -> tuple[Any, Any]:
    """A small Idefics3 (the architecture of granite-docling) with its processor, for pages of ``side`` pixels."""
    words = tokenizer()
    ids = {name: words.convert_tokens_to_ids(name) for name in SPECIAL}
    pictures = transformers.Idefics3ImageProcessor(
        do_image_splitting=False, size={"longest_edge": side}, max_image_size={"longest_edge": side}
    )
    processor = transformers.Idefics3Processor(pictures, words, image_seq_len=(side // 8) ** 2, chat_template=TEMPLATE)
    torch.manual_seed(0)
    config = transformers.Idefics3Config(
        text_config=TEXT | {"model_type": "llama", "vocab_size": len(words), "hidden_size": width,
                            "intermediate_size": 2 * width, "max_position_embeddings": 1024,
                            "eos_token_id": ids["</s>"]},
        vision_config={"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                       "num_attention_heads": 2, "image_size": side, "patch_size": 4},
        image_token_id=ids["<image>"], scale_factor=2, tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.Idefics3ForConditionalGeneration(config).eval()
    model.generation_config.eos_token_id = ids["</s>"]
    model.generation_config.pad_token_id = ids["<pad>"]
    return model, processor
