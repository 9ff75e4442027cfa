#!/usr/bin/env python3
"""Makes man pages and completions of the tools from what their --help prints.

usage: manuals.py SHARE TOOL...

Writes SHARE/man/man1/TOOL.1.gz and the completions for bash, zsh and fish under
SHARE, where these shells look for them. Reads the help of CLI11 and that of LLVM.
"""

import dataclasses
import gzip
import pathlib
import re
import subprocess
import sys
import textwrap

EXAMPLES = {
    "cria-compile": [
        ("cria-compile DIR -o model.cria", "compiles a folder from Hugging Face for this machine"),
        ("cria-compile DIR --target=cpu,cuda --cpu=x86-64-v3,x86-64-v4 -o model.cria", "for other machines, too"),
        ("cria-compile DIR --emit=fuse", "prints the graph and its fused kernels"),
    ],
    "cria-run": [
        ("cria-run DIR -p \"Once upon a time\" -n 100", "continues a text; the first run compiles the model"),
        ("cria-run model.gguf -i", "chats"),
        ("cria-run model.cria --weights=DIR -f - -q < prompt.txt", "reads the prompt, and prints the text alone"),
    ],
    "cria-serve": [
        ("cria-serve DIR", "serves a folder from Hugging Face on port 8080 of this machine"),
        ("cria-serve model.cria --weights=DIR --host=0.0.0.0 --api-key-file=FILE", "serves other machines, which need a key"),
    ],
    "cria-inspect": [
        ("cria-inspect model.cria", "prints what the artifact is for, and its entries"),
        ("cria-inspect model.cria --weights=DIR", "says whether a checkpoint fits, and the memory it needs"),
    ],
    "cria-tokenize": [
        ("echo Hello | cria-tokenize DIR/tokenizer.json", "turns text into ids"),
        ("echo 1,2,3 | cria-tokenize DIR/tokenizer.json --decode", "turns ids into text"),
    ],
    "cria-bisect": [
        ("cria-compile DIR --taps -o model.cria", "compiles a model whose results can be compared"),
        ("cria-compile DIR --taps --plain -o plain.cria", "compiles the reference by MLIR's own lowering"),
        ("cria-bisect model.cria --weights=DIR --ids=1,2,3 --against=plain.cria", "names the first kernel whose result is wrong"),
    ],
    "cria-bench": [
        ("cria-bench model.cria --weights=DIR", "measures speed beside what the machine allows"),
        ("cria-bench model.cria --weights=DIR --kernels", "measures each kernel"),
    ],
    "cria-opt": [
        ("cria-compile DIR --emit=import | cria-opt --llama-fuse-residual", "runs one pass over a model"),
        ("cria-opt model.mlir --cria-fuse --cria-linalg -o linalg.mlir", "takes a program from phase import to phase linalg"),
    ],
    "cria-reduce": [
        (
            "COMMAND='cria-opt $FILE --flash-attention' MESSAGE=expected "
            "cria-reduce bug.mlir --reduction-tree='traversal-mode=0 test=scripts/interesting.sh'",
            "makes a program smaller for which a command prints a message",
        ),
    ],
    "cria-lsp-server": [
        ("cria-lsp-server", "answers an editor on standard input and output, by the Language Server Protocol"),
    ],
}
ENVIRONMENT = {
    "cria-run": [
        ("CRIA_CACHE", "the folder of compiled models; else cria in XDG_CACHE_HOME or ~/.cache"),
        ("CRIA_COMPILE", "the compiler; else cria-compile beside cria-run or on the PATH"),
    ],
    "cria-serve": [
        ("CRIA_API_KEY", "the key that clients need, unless --api-key-file has keys"),
        ("CRIA_CACHE", "the folder of compiled models; else cria in XDG_CACHE_HOME or ~/.cache"),
        ("CRIA_COMPILE", "the compiler; else cria-compile beside cria-serve or on the PATH"),
    ],
}
ERROR, USAGE = "an error, which a line on standard error names", "a command line that cannot be read"
EXIT_STATUS = [("0", "all went well"), ("1", ERROR), ("2", USAGE)]
OTHER_EXIT_STATUS = {
    "cria-bisect": [("0", "no result is wrong"), ("1", "a result is wrong"), ("2", f"{ERROR}, or {USAGE}")],
    "cria-lsp-server": [("0", "the editor asked for the end"), ("1", f"{ERROR}, or {USAGE}")],
    "cria-opt": [("0", "all went well"), ("1", f"{ERROR}, or {USAGE}")],
    "cria-reduce": [("0", "all went well"), ("1", f"{ERROR}, or {USAGE}")],
}
SIGNAL = ("128+N", "as shells say it: signal N ended the tool")

# An option, its value, and the beginning of its description.
LLVM = re.compile(r"\s+(?P<names>--?[\w-]+)(?P<value>\[=<.*?>\]|=<.*?>| <.*?>|=\S+)?\s+-\s+(?P<text>.*)")
LLVM_VALUE = re.compile(r"\s+=(?P<value>\S+)\s+-\s+(?P<text>.*)")
CLI11 = re.compile(r"  (?P<names>-[\w,-]+)(?P<value> .*)?")


@dataclasses.dataclass
class Option:
    """One option of a tool."""

    names: list  # as --help or -h
    value: str = ""  # what stands for it, as FILE
    text: str = ""
    choices: list = dataclasses.field(default_factory=list)  # (value, text)
    group: str = "Options"


@dataclasses.dataclass
class Tool:
    """What a tool says of itself."""

    name: str
    version: str = ""
    about: str = ""
    usage: str = ""
    notes: list = dataclasses.field(default_factory=list)  # behind the options
    options: list = dataclasses.field(default_factory=list)


def paragraphs(lines):
    """Lines joined between empty ones."""
    return [" ".join(p.split()) for p in "\n".join(lines).split("\n\n") if p.strip()]


def read_llvm(tool, lines):
    for line in lines:
        if line.startswith("OVERVIEW: "):
            tool.about = line.removeprefix("OVERVIEW: ")
        elif line.startswith("USAGE: "):
            tool.usage = line.removeprefix("USAGE: ").partition(" ")[2]
        elif found := LLVM.fullmatch(line):
            value = (found["value"] or "").strip("[] ").strip("=").strip("<>")
            option = Option([found["names"]], value, found["text"].strip())
            if "|" in value and re.fullmatch(r"[\w,|-]+", value):
                option.choices = [(choice, "") for choice in value.split("|")]
            tool.options.append(option)
        elif (found := LLVM_VALUE.fullmatch(line)) and tool.options:
            tool.options[-1].choices.append((found["value"], found["text"].strip()))


def read_cli11(tool, lines):
    usage = next(i for i, line in enumerate(lines) if line.startswith("Usage: "))
    tool.about = " ".join(lines[:usage]).strip()
    tool.usage = lines[usage].split(" ", 2)[2]
    begin = lines.index("Options:")
    last = max(i for i, line in enumerate(lines) if line.startswith(" "))
    tool.notes = paragraphs(lines[last + 1 :])
    group = ""
    for line in lines[begin : last + 1]:
        head, text = line[:30].rstrip(), line[30:]
        if line.endswith(":") and not line.startswith(" "):
            group = line.removesuffix(":")
        elif found := CLI11.fullmatch(head if text and line[29] == " " else line):
            value = (found["value"] or "").strip(" []")
            option = Option(found["names"].split(","), value, "", group=group)
            if "|" in value:
                option.choices = [(choice, "") for choice in value.split("|")]
            tool.options.append(option)
            option.text = text if head != line else ""
        elif text:
            tool.options[-1].text = f"{tool.options[-1].text} {text}".strip()


def read(path):
    """What the tool at `path` says of itself."""

    def ask(option):
        done = subprocess.run([path, option], capture_output=True, text=True, check=True)
        return done.stdout

    tool = Tool(path.name, ask("--version").split(" ", 1)[1].strip())
    lines = [line.rstrip() for line in ask("--help").splitlines()]
    (read_cli11 if "Options:" in lines else read_llvm)(tool, lines)
    if not tool.options or not tool.usage:
        sys.exit(f"manuals.py: error: the --help of {path} is in no known form")
    return tool


# ---- Man pages --------------------------------------------------------------


def roff(text):
    """Text as roff prints it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def bold(option):
    joint = "=" if option.names[-1].startswith("--") else " "
    value = f"{joint}\\fI{roff(option.value)}\\fR" if option.value else ""
    return ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names) + value


def man_page(tool):
    summary = re.split(r"(?<=\w)[:.] |\.$", tool.about)[0]
    lines = [
        f'.TH {tool.name.upper()} 1 "" "Cria {tool.version}" "User Commands"',
        ".SH NAME",
        f"{roff(tool.name)} \\- {roff(summary)}",
        ".SH SYNOPSIS",
        f".B {roff(tool.name)}",
        roff(tool.usage),
        ".SH DESCRIPTION",
        roff(tool.about),
        ".SH OPTIONS",
    ]
    group = "Options"
    for option in tool.options:
        if option.group != group:
            group = option.group
            lines.append(f".SS {group}")
        lines += [".TP", bold(option), roff(option.text)]
        for value, text in option.choices:
            if text:
                lines += [".br", f"\\fI{roff(value)}\\fR: {roff(text)}"]
    for note in tool.notes:
        lines += [".PP", roff(note)]
    for title, rows in [
        ("EXIT STATUS", [*OTHER_EXIT_STATUS.get(tool.name, EXIT_STATUS), SIGNAL]),
        ("ENVIRONMENT", ENVIRONMENT.get(tool.name, [])),
        ("EXAMPLES", EXAMPLES[tool.name]),
    ]:
        if rows:
            lines.append(f".SH {title}")
        for name, text in rows:
            lines += [".TP", f"\\fB{roff(name)}\\fR", roff(text)]
    return "\n".join(lines) + "\n"


# ---- Completions ------------------------------------------------------------


def bash(tool):
    """For bash, which gives the words of --option=value apart."""
    words = [
        name + ("=" if option.value and name.startswith("--") else "")
        for option in tool.options
        for name in option.names
    ]
    cases = "".join(
        f"  {'|'.join(option.names)})\n    COMPREPLY=($(compgen -W "
        f"'{' '.join(value for value, _ in option.choices)}' -- \"$word\"))\n"
        "    return\n    ;;\n"
        for option in tool.options
        if option.choices
    )
    function = "_" + tool.name.replace("-", "_")
    return f"""{function}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} option=${{COMP_WORDS[COMP_CWORD - 1]}}
  if [[ $word == = ]]; then
    word=
  elif [[ $option == = ]]; then
    option=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  case $option in
{cases}  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W '{" ".join(words)}' -- "$word"))
    [[ ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace
  fi
}}
complete -o default -F {function} {tool.name}
"""


def zsh(tool):
    def quoted(text):
        return text.replace("'", "'\\''").replace("[", "(").replace("]", ")")

    lines = []
    for option in tool.options:
        choices = " ".join(value for value, _ in option.choices)
        action = f"({choices})" if choices else "_files"
        for name in option.names:
            joint = "=" if option.value and name.startswith("--") else ""
            value = f":{quoted(option.value.replace(':', ' '))}:{action}" if option.value else ""
            lines.append(f"  '*{name}{joint}[{quoted(option.text)}]{value}' \\")
    text = "\n".join(lines)
    return f"#compdef {tool.name}\n_arguments \\\n{text}\n  '*:file:_files'\n"


def fish(tool):
    lines = []
    for option in tool.options:
        flags = [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
        choices = " ".join(value for value, _ in option.choices)
        values = f"-x -a '{choices}'" if choices else "-r" if option.value else ""
        text = option.text.replace("\\", "\\\\").replace("'", "\\'")
        parts = ["complete", "-c", tool.name, *flags, *values.split(" ", 2), "-d", f"'{text}'"]
        lines.append(" ".join(part for part in parts if part))
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        print(textwrap.dedent(__doc__).strip())
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    share = pathlib.Path(sys.argv[1])
    for path in map(pathlib.Path, sys.argv[2:]):
        tool = read(path)
        # Without a time, the same help makes the same file.
        page = gzip.compress(man_page(tool).encode(), mtime=0)
        for name, content in (
            (f"man/man1/{tool.name}.1.gz", page),
            (f"bash-completion/completions/{tool.name}", bash(tool).encode()),
            (f"zsh/site-functions/_{tool.name}", zsh(tool).encode()),
            (f"fish/vendor_completions.d/{tool.name}.fish", fish(tool).encode()),
        ):
            file = share / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


if __name__ == "__main__":
    main()
