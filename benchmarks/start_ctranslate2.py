"""What a person writes who translates a file with CTranslate2 and tokenizers alone: the rival of `qkv translate`.

python benchmarks/start_ctranslate2.py FOLDER PRECISION BEAM WORKERS FILE OUT
"""

import sys
from pathlib import Path

import ctranslate2
from tokenizers import Tokenizer

TOKENS = 2048  # of a batch


def main() -> None:
    folder, precision, beam, workers, source, out = sys.argv[1:]
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    translator = ctranslate2.Translator(folder, compute_type=precision, inter_threads=int(workers), intra_threads=1)
    lines = Path(source).read_text(encoding="utf-8").splitlines()
    rows = [encoding.tokens for encoding in tokenizer.encode_batch(lines, add_special_tokens=False)]
    results = translator.translate_batch(rows, beam_size=int(beam), max_batch_size=TOKENS, batch_type="tokens")
    known = tokenizer.get_vocab()
    ids = [[known[word] for word in result.hypotheses[0]] for result in results]
    texts = [" ".join(text.split()) for text in tokenizer.decode_batch(ids)]  # a model may write a newline
    Path(out).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


if __name__ == "__main__":
    main()
