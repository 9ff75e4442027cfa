"""convert.py SOURCE DIR TYPE FILE.gguf: writes a model of transformers as a GGUF file.

The converter is llama.cpp's, in SOURCE; the tokens have no meaning.
"""

import json
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import random_gguf  # noqa: E402


def main():
    source, model, kind, to = sys.argv[1:]
    sys.path.insert(0, source)
    import convert_hf_to_gguf as converter

    folder = pathlib.Path(model)
    count = json.loads((folder / "config.json").read_text())["vocab_size"]
    known = converter.get_model_class

    def without_tokenizer(*args, **options):
        model = known(*args, **options)

        class Model(model):
            model_arch = model.model_arch
            no_mtp = True  # transformers makes none

            def set_vocab(self):
                random_gguf.add_tokens(self.gguf_writer, count)

        return Model

    converter.get_model_class = without_tokenizer
    sys.argv[1:] = [model, "--outtype", kind, "--outfile", f"{to}.part"]
    # It keeps one row of Gemma's embeddings for each id of a tokenizer.
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(
        json.dumps({"model": {"vocab": {str(i): i for i in range(count)}}, "added_tokens": []})
    )
    try:
        converter.main()
    finally:
        tokenizer.unlink()
    os.replace(f"{to}.part", to)


main()
