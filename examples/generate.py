"""Generates text with the Python package of Cria.

pip install ./python
python examples/generate.py OUT.cria MODEL-FOLDER "Once upon a time" 100
"""

import sys

import cria


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: generate.py OUT.cria MODEL-FOLDER PROMPT TOKENS")
    artifact, folder, prompt, most = sys.argv[1:]
    try:
        model = cria.load(artifact, weights=folder)
        print(prompt, end="", flush=True)
        for token in model.generate(prompt, max_tokens=int(most), stream=True):
            print(token.text, end="", flush=True)
        print()
    except cria.Error as error:
        sys.exit(f"generate.py: error: {error.status.name}: {error}")


if __name__ == "__main__":
    main()
