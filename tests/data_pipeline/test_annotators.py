"""Annotators: programs, Tesseract, a tiny vision language model, and how they are named."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from data_pipeline import annotators, consensus

PRINT = "The harbour was dredged in the spring\nand the tide gauge moved to the quay."


def test_a_program_reads_pictures(program: str) -> None:
    images = [Image.new("L", (20, 30)), Image.new("L", (40, 50))]
    expected = ["20 by 30 of text", "40 by 50 of text"]
    single = annotators.make_annotator(f"mine=command:{program} - {{kind}} {{image}}")
    batched = annotators.make_annotator(f"command:{program} {{out}} {{kind}} {{images}}")
    assert [text.strip() for text in single(images, "text")] == expected == batched(images, "text")
    assert single.name == "mine" and isinstance(single, annotators.Annotator)
    with pytest.raises(annotators.AnnotatorError, match="ended with code 1: thirteen is too narrow"):
        single([Image.new("L", (13, 30))], "text")
    with pytest.raises(annotators.AnnotatorError, match="thirteen is too narrow"):
        batched([Image.new("L", (13, 30)), *images], "text")


def test_specs_are_split_at_annotators_only() -> None:
    text = "tesseract, a=command:prog --opts x,y {image},rapidocr,hf:some/model"
    assert annotators.split_specs(text) == [
        "tesseract",
        "a=command:prog --opts x,y {image}",
        "rapidocr",
        "hf:some/model",
    ]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("tesserct", "unknown annotator 'tesserct': use tesseract, rapidocr, hf, command"),
        ("command:", "write command:..."),
        ("rapidocr:x", "nothing may follow it"),
        ("command:no-such-program {image}", "'no-such-program' is not on this machine"),
        ("command:cat", "needs {image}"),
        ("command:cat {images}", "needs {image}, or both"),
        ("command:cat x{images} {out}", "keep it apart"),
        ("command:cat {picture}", "use {image}"),
        ("command:cat 'x {image}", "cannot be split"),
    ],
)
def test_wrong_specs_say_what_to_do(spec: str, fault: str) -> None:
    with pytest.raises(annotators.AnnotatorError, match=fault.replace("{", r"\{").replace("...", r"\.\.\.")):
        annotators.make_annotator(spec)


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
def test_tesseract_reads() -> None:
    reader = annotators.make_annotator("tesseract")
    picture = Image.new("L", (840, 200), 255)
    font = ImageFont.load_default(36)
    ImageDraw.Draw(picture).multiline_text((20, 20), PRINT, fill=0, font=font, spacing=16)
    (text,) = reader([picture], "text")
    assert consensus.similarity(text, PRINT, "text") > 0.95
    assert reader([picture], "table") == [""]
    with pytest.raises(annotators.AnnotatorError, match="no data for xxx"):
        annotators.make_annotator("tesseract:eng+xxx")


def test_pieces_are_put_into_lines() -> None:
    def at(x: float, y: float, text: str) -> tuple[np.ndarray, str]:
        return np.array([(x, y), (x + 50, y), (x + 50, y + 10), (x, y + 10)]), text

    pieces = [at(80, 22, "d"), at(0, 0, "a"), at(80, -2, "b"), at(0, 20, "c")]
    assert annotators.in_lines(pieces) == "a b\nc d"


@pytest.fixture(scope="module")
def tiny_vlm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole LLaVA of a few thousand random weights, its words single characters."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("vlm")
    words = ["<unk>", "<s>", "</s>", "<pad>", "<image>", *map(chr, range(32, 127))]
    plain = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        additional_special_tokens=["<image>"],
    )  # fmt: skip
    template = (
        "{% for turn in messages %}{% for part in turn['content'] %}"
        "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    )
    pictures = transformers.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = transformers.LlavaProcessor(
        pictures, tokenizer, patch_size=14, vision_feature_select_strategy="default", chat_template=template,
        num_additional_image_tokens=1,
    )  # fmt: skip
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = transformers.LlamaConfig(vocab_size=len(words), max_position_embeddings=512, eos_token_id=2, **size)
    vision = transformers.CLIPVisionConfig(image_size=28, patch_size=14, **size)
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=4)
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_vision_language_model_is_loaded_and_asked(tiny_vlm: Path) -> None:
    """Random weights say nothing of sense; the same picture gets the same answer, without the question in it."""
    from data_pipeline.vlm import PROMPTS, VisionLanguageModel

    reader = annotators.make_annotator(f"small=hf:{tiny_vlm}")
    assert isinstance(reader, VisionLanguageModel) and reader.name == "small"
    reader.max_new_tokens = 5
    pictures = [Image.new("L", (60, 20), 255), Image.new("L", (60, 20), 0), Image.new("L", (60, 20), 255)]
    texts = reader(pictures, "text")
    assert len(texts) == 3 and texts[0] == texts[2] and all(len(text) <= 10 for text in texts)
    assert not any(PROMPTS["text"][:10] in text for text in texts)
    assert len(reader(pictures[:1], "table")) == 1


@pytest.mark.slow
def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(annotators.AnnotatorError, match="cannot be loaded") as caught:
        annotators.make_annotator(f"hf:{tmp_path}")
    assert "\n" not in str(caught.value)
