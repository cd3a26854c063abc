"""What `transformers` saves, regard loads, and both say the same: random weights, tiny sizes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_checkpoints import BERT_TEXTS, TEXTS, bert_tokenizer, gpt2_tokenizer, vit_folder

import regard

CLOSE = dict(atol=1e-4, rtol=0.0)
SIZES = dict(hidden_size=16, intermediate_size=24, num_attention_heads=4, num_hidden_layers=2)
HEADS = ["BertForPreTraining", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification"]


@pytest.fixture(scope="module")
def transformers() -> Any:
    library = pytest.importorskip("transformers", reason="transformers, the reference, is not installed")
    library.logging.disable_progress_bar()
    return library


def drawn(model: Any) -> Any:
    """Weights large enough that a mistake is seen."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def saved_bert(transformers: Any, architecture: str, folder: Path) -> tuple[Any, Any]:
    """Their model and tokenizer, both also in the folder; two rows of the embedding have no token."""
    tokenizer = bert_tokenizer()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer) + 2, max_position_embeddings=24, pad_token_id=tokenizer.pad, num_labels=3, **SIZES
    )
    model = drawn(getattr(transformers, architecture)(config))
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        mask_token="[MASK]",
    )
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return model, tokenizer


def told(tokenizer: Any, texts: list[str]) -> dict[str, torch.Tensor]:
    """A batch of rows of different lengths, as theirs want it."""
    rows = [[tokenizer.start, *tokenizer.encode(text), tokenizer.end] for text in texts]
    width = max(map(len, rows))
    tokens = torch.tensor([row + [tokenizer.pad] * (width - len(row)) for row in rows])
    return {"input_ids": tokens, "attention_mask": (tokens != tokenizer.pad).long()}


@pytest.mark.parametrize("architecture", HEADS)
def test_every_head_of_bert_says_the_same(architecture: str, transformers: Any, tmp_path: Path) -> None:
    theirs, tokenizer = saved_bert(transformers, architecture, tmp_path)
    loaded = regard.load(tmp_path, device="cpu")
    inputs = told(tokenizer, BERT_TEXTS)
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        said = theirs(**inputs)
        found = loaded.model(inputs["input_ids"])
    expected = said.prediction_logits if architecture == "BertForPreTraining" else said.logits
    if architecture == "BertForSequenceClassification":
        torch.testing.assert_close(found, expected, **CLOSE)
        chances = np.array([list(one.probabilities.values()) for one in loaded.classify(BERT_TEXTS)])
        np.testing.assert_allclose(chances, expected.softmax(-1), **CLOSE)
        return
    torch.testing.assert_close(found[real], expected[real], **CLOSE)
    if architecture == "BertForPreTraining":
        verdict = loaded.model.next_logits(*loaded.model.encoder(inputs["input_ids"]))
        torch.testing.assert_close(verdict, said.seq_relationship_logits, **CLOSE)
    if architecture == "BertForMaskedLM":
        assert loaded.model.config.next_sentence is False
        gap = loaded.fill("the [MASK] sat")[0].guesses[0]
        row = [tokenizer.start, *tokenizer.encode("the"), tokenizer.mask, *tokenizer.encode("sat"), tokenizer.end]
        best = theirs(input_ids=torch.tensor([row])).logits[0, 2].softmax(-1).topk(5).values.tolist()
        assert [guess.probability for guess in gap] == pytest.approx(best, abs=1e-4)


def test_the_bare_encoder_gives_the_same_states(transformers: Any, tmp_path: Path) -> None:
    theirs, tokenizer = saved_bert(transformers, "BertModel", tmp_path)
    loaded = regard.load(tmp_path, device="cpu")
    inputs = told(tokenizer, BERT_TEXTS)
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        states = theirs(**inputs).last_hidden_state
    np.testing.assert_allclose(loaded.embed(BERT_TEXTS, pooling="cls"), states[:, 0], **CLOSE)
    means = torch.stack([row[mask].mean(0) for row, mask in zip(states, real, strict=True)])
    np.testing.assert_allclose(loaded.embed(BERT_TEXTS), means, **CLOSE)


def test_a_plain_vocabulary_is_read_as_theirs(transformers: Any, tmp_path: Path) -> None:
    saved_bert(transformers, "BertModel", tmp_path / "bert")
    vocabulary = bert_tokenizer().backend.get_vocab()
    (tmp_path / "bert" / "tokenizer.json").unlink()
    (tmp_path / "bert" / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)) + "\n")
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path / "bert")
    ours = regard.load(tmp_path / "bert", device="cpu").tokenizer
    for text in (*BERT_TEXTS, "Thé cät—sat漢字 on\tit!", "  ", "catastrophe ##on"):
        assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def gpt2(
    request: pytest.FixtureRequest, transformers: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Any]:
    folder = tmp_path_factory.mktemp("gpt2")
    tokenizer = gpt2_tokenizer()
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=4,
        bos_token_id=tokenizer.end,
        eos_token_id=tokenizer.end,
        tie_word_embeddings=request.param,
    )
    theirs = drawn(transformers.GPT2LMHeadModel(config))
    theirs.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer.to_json())
    return theirs, regard.load(folder, device="cpu")


def test_gpt2_gives_the_same_logits(gpt2: tuple[Any, Any]) -> None:
    theirs, loaded = gpt2
    tokens = torch.tensor([loaded.tokenizer.encode(TEXTS[0])])
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(tokens), theirs(tokens).logits, **CLOSE)
        nll = theirs(torch.tensor([[loaded.tokenizer.end, *tokens[0].tolist()]]))
    expected = nll.logits[0, :-1].log_softmax(-1).gather(1, tokens[0][:, None]).sum().item()
    assert loaded.score(TEXTS[0])[0].log_probability == pytest.approx(expected, abs=1e-3)


def test_a_gpt2_that_is_saved_opens_with_the_same_logits(gpt2: tuple[Any, Any], tmp_path: Path) -> None:
    _, loaded = gpt2
    loaded.save_pretrained(tmp_path)
    again = regard.load(tmp_path, device="cpu")
    tokens = torch.arange(20)[None]
    assert again.model.config == loaded.model.config
    assert torch.equal(again.model(tokens), loaded.model(tokens))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.filterwarnings("ignore")  # theirs remarks on its own defaults
def test_prompts_of_different_lengths_go_on_as_theirs(beams: int, gpt2: tuple[Any, Any]) -> None:
    theirs, loaded = gpt2
    prompts = ["the cat sat on", "a", "the dog was"]
    rows = [loaded.tokenizer.encode(prompt) for prompt in prompts]
    width = max(map(len, rows))
    tokens = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    written = theirs.generate(
        tokens,
        attention_mask=mask,
        max_new_tokens=8,
        num_beams=beams,
        do_sample=False,
        pad_token_id=loaded.tokenizer.end,
    )[:, width:].tolist()
    end = loaded.tokenizer.end
    expected = [row[: row.index(end)] if end in row else row for row in written]
    found = loaded.generate(prompts, num_beams=beams, max_new_tokens=8)
    assert [one.tokens for one in found] == expected
    alone = [loaded.generate(prompt, num_beams=beams, max_new_tokens=8)[0].tokens for prompt in prompts]
    assert alone == expected


@pytest.mark.parametrize("side", [8, 12])
def test_vit_says_the_same_of_pictures_of_either_size(side: int, transformers: Any, tmp_path: Path) -> None:
    config = transformers.ViTConfig(image_size=8, patch_size=4, num_labels=3, **SIZES)
    theirs = drawn(transformers.ViTForImageClassification(config))
    vit_folder(tmp_path)  # for its preprocessor_config.json
    (tmp_path / "model.safetensors").unlink()
    theirs.save_pretrained(tmp_path)
    settings = {
        "size": {"height": side, "width": side},
        "image_mean": [0.5] * 3,
        "image_std": [0.25] * 3,
        "resample": 2,
    }
    transformers.ViTImageProcessorPil(**settings).save_pretrained(tmp_path)
    loaded = regard.load(tmp_path, device="cpu")
    picture = np.random.default_rng(0).integers(0, 256, (side, side, 3)).astype(np.uint8)
    processor = transformers.ViTImageProcessorPil.from_pretrained(tmp_path)
    pixels = processor(images=[picture], return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        expected = theirs(pixel_values=pixels, interpolate_pos_encoding=side != 8).logits
        torch.testing.assert_close(loaded.model(pixels), expected, **CLOSE)
    chances = list(loaded.classify([picture])[0].probabilities.values())
    np.testing.assert_allclose(chances, expected[0].softmax(-1), **CLOSE)
