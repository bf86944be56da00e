"""A llama of random weights over bytes, as a file for llama.cpp: half a megabyte, made at once."""

import gguf
import numpy as np

TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def write_random_llama(path, width=64, layers=2, heads=4, hidden=128, context=4096, seed=0):
    rng = np.random.default_rng(seed)
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{i:02X}>".encode() for i in range(256))]
    kind = gguf.TokenType
    kinds = [kind.UNKNOWN, kind.CONTROL, kind.CONTROL, *[kind.BYTE] * 256]
    # Printable characters are pieces of their own, so that texts come back as they were.
    tokens += [bytes([i]) for i in range(33, 127)] + ["▁".encode()]
    kinds += [kind.NORMAL] * 95
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)

    def normal(name, *shape):
        writer.add_tensor(name, rng.normal(0, 0.3, shape).astype(np.float32))

    normal("token_embd.weight", len(tokens), width)
    normal("output.weight", len(tokens), width)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for layer in range(layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            normal(f"blk.{layer}.{name}.weight", width, width)
        normal(f"blk.{layer}.ffn_gate.weight", hidden, width)
        normal(f"blk.{layer}.ffn_up.weight", hidden, width)
        normal(f"blk.{layer}.ffn_down.weight", width, hidden)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
