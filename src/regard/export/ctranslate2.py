"""CTranslate2 models: Transformers, GPT-2 and BERT for a C++ engine that is quick on CPUs, whole or quantised.

Its specifications are filled from our weights directly. An engine of encoders knows no heads: what comes after the
encoder of a BERT lies beside it as head.safetensors.
"""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.data.tokenizer import NO_TOKEN
from regard.export.companions import companions, fill, labels_file, save_tensors
from regard.export.subject import Subject

FAMILIES = ("bert", "bert-classifier", "bert-tagger", "bert-embedder", "gpt2", "transformer")
EXTRA, PACKAGES, QUANTIZATIONS = "ctranslate2", ("ctranslate2",), ("float32", "int8")
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
BLOCK_EPSILON = 1e-5  # of a Transformer's norms, which has no setting for it


def write(subject: Subject, folder: Path, quantization: str | None = None) -> None:
    kinds = {"transformer": translator, "gpt2": language_model}
    spec = kinds.get(subject.family, encoder)(subject)
    spec.validate()
    spec.optimize(quantization=quantization or "float32")
    spec.save(str(folder))
    fill(folder, {**companions(subject), **labels_file(subject)})
    if subject.family.startswith("bert") and (tensors := head(subject)):
        save_tensors(tensors, folder / "head.safetensors")


def translator(subject: Subject) -> Any:
    from ctranslate2 import specs

    model, config = subject.model, subject.config
    layers = (config.encoder_layers, config.decoder_layers)
    spec = specs.TransformerSpec.from_config(
        layers, config.heads, pre_norm=config.pre_norm, activation=activation(config.activation)
    )
    for stack, ours in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        stack.scale_embeddings = config.scaled
        stack.position_encodings.encodings = numbers(model.positions.table)
        if config.pre_norm:
            norm(stack.layer_norm, ours.norm)
        for theirs, layer in zip(stack.layer, ours.layers, strict=True):
            block(theirs, layer)
    embedding = numbers(model.embedding.weight)
    spec.encoder.embeddings[0].weight = embedding
    spec.decoder.embeddings.weight = spec.decoder.projection.weight = embedding
    if model.output_bias is not None:
        spec.decoder.projection.bias = numbers(model.output_bias.squeeze(1))
    tokens, vocabulary = subject.tokenizer, subject.vocabulary()
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.unk_token = vocabulary[tokens.unknown]
    spec.config.eos_token = vocabulary[tokens.end]
    spec.config.bos_token = spec.config.decoder_start_token = vocabulary[tokens.start]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = BLOCK_EPSILON
    return spec


def language_model(subject: Subject) -> Any:
    from ctranslate2 import specs

    model, config = subject.model, subject.config
    spec = specs.TransformerDecoderModelSpec.from_config(
        config.layers, config.heads, pre_norm=True, activation=activation(config.activation)
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = numbers(model.embedding.weight)
    decoder.projection.weight = decoder.embeddings.weight if config.tied else numbers(model.output_weight)
    decoder.position_encodings.encodings = numbers(model.positions.weight)
    norm(decoder.layer_norm, model.norm)
    for theirs, layer in zip(decoder.layer, model.layers, strict=True):
        block(theirs, layer)
    tokens, vocabulary = subject.tokenizer, subject.vocabulary()
    spec.register_vocabulary(vocabulary)
    spec.config.bos_token, spec.config.eos_token = vocabulary[subject.start], vocabulary[tokens.end]
    spec.config.unk_token = vocabulary[tokens.end if tokens.unknown == NO_TOKEN else tokens.unknown]
    spec.config.layer_norm_epsilon = config.epsilon
    return spec


def encoder(subject: Subject) -> Any:
    """BERT, with its pooler if it has one."""
    from ctranslate2 import specs
    from ctranslate2.specs import common_spec, transformer_spec

    ours, config = subject.model.encoder, subject.config
    body = transformer_spec.TransformerEncoderSpec(
        config.layers,
        config.heads,
        pre_norm=False,
        activation=activation(config.activation),
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    pooler = getattr(subject.model, "pooler", None)
    spec = specs.TransformerEncoderModelSpec(body, pooling_layer=pooler is not None)
    body.scale_embeddings = False
    body.embeddings[0].weight, body.embeddings[1].weight = numbers(ours.embedding.weight), numbers(ours.segments.weight)
    body.position_encodings.encodings = numbers(ours.positions.table)
    norm(body.layernorm_embedding, ours.norm)
    if pooler is not None:
        linear(spec.pooler_dense, pooler.dense)
    for theirs, layer in zip(body.layer, ours.layers, strict=True):
        block(theirs, layer)
    spec.register_vocabulary(subject.vocabulary())
    spec.config.unk_token = subject.vocabulary()[subject.tokenizer.unknown]
    spec.config.layer_norm_epsilon = config.epsilon
    return spec


def head(subject: Subject) -> dict[str, Tensor]:
    """What the engine does not run: logits = label.weight c + label.bias, or BERT's words."""
    inside = ("encoder.", "pooler.")
    tensors = {name: known for name, known in subject.model.state_dict().items() if not name.startswith(inside)}
    if subject.family == "bert":
        tensors["words.weight"] = subject.model.encoder.embedding.weight.detach()
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def block(theirs: Any, ours: Any) -> None:
    """Any of our blocks; the engine keeps the projections of queries and of the source apart."""
    linear(theirs.self_attention.linear[0], ours.self_attention.query_key_value)
    linear(theirs.self_attention.linear[1], ours.self_attention.output)
    norm(theirs.self_attention.layer_norm, ours.around_self_attention.norm)
    if hasattr(ours, "cross_attention"):
        size, joint = ours.cross_attention.size, ours.cross_attention.query_key_value
        for place, rows in enumerate((slice(0, size), slice(size, None))):
            theirs.attention.linear[place].weight = numbers(joint.weight[rows])
            theirs.attention.linear[place].bias = numbers(joint.bias[rows])
        linear(theirs.attention.linear[2], ours.cross_attention.output)
        norm(theirs.attention.layer_norm, ours.around_cross_attention.norm)
    linear(theirs.ffn.linear_0, ours.feed_forward.expand)
    linear(theirs.ffn.linear_1, ours.feed_forward.contract)
    norm(theirs.ffn.layer_norm, ours.around_feed_forward.norm)


def linear(theirs: Any, ours: nn.Linear) -> None:
    theirs.weight, theirs.bias = numbers(ours.weight), numbers(ours.bias)


def norm(theirs: Any, ours: nn.LayerNorm) -> None:
    theirs.gamma, theirs.beta = numbers(ours.weight), numbers(ours.bias)


def numbers(tensor: Tensor) -> Any:
    """A copy: the engine's quantiser works in place."""
    return tensor.detach().float().numpy().copy()


def activation(name: str) -> Any:
    from ctranslate2.specs.common_spec import Activation

    return Activation[ACTIVATIONS[name]]
