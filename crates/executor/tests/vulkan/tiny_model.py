"""Writes a tiny language model: `tiny_model.py OUT.gguf`.

Llama architecture, 2 blocks, 64 wide, one token per byte. It is untrained, so its output is
meaningless, but it performs every kind of computation of a real model. The same versions of the
packages in requirements.txt write the same bytes.
"""

import sys

import gguf
import numpy

WIDTH = 64
HEADS = 4
BLOCKS = 2
FEED_FORWARD = 192
CONTEXT = 512
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def main(path: str) -> None:
    # RandomState is frozen: the numbers are the same in every version of numpy.
    random = numpy.random.RandomState(1151)

    def matrix(rows: int, columns: int) -> numpy.ndarray:
        return (random.standard_normal((rows, columns)) / numpy.sqrt(columns)).astype(numpy.float32)

    ones = numpy.ones(WIDTH, dtype=numpy.float32)
    tokens = SPECIAL + BYTES
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds + [gguf.TokenType.BYTE] * len(BYTES))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    writer.add_tensor("token_embd.weight", matrix(len(tokens), WIDTH))
    for block in range(BLOCKS):
        name = f"blk.{block}"
        writer.add_tensor(f"{name}.attn_norm.weight", ones)
        for part in ["attn_q", "attn_k", "attn_v", "attn_output"]:
            writer.add_tensor(f"{name}.{part}.weight", matrix(WIDTH, WIDTH))
        writer.add_tensor(f"{name}.ffn_norm.weight", ones)
        writer.add_tensor(f"{name}.ffn_gate.weight", matrix(FEED_FORWARD, WIDTH))
        writer.add_tensor(f"{name}.ffn_up.weight", matrix(FEED_FORWARD, WIDTH))
        writer.add_tensor(f"{name}.ffn_down.weight", matrix(WIDTH, FEED_FORWARD))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", matrix(len(tokens), WIDTH))

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tiny_model.py OUT.gguf")
    main(sys.argv[1])
