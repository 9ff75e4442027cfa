"""lsp_session.py SERVER SETTINGS: requests of an editor to cria-lsp-server, and the answers.

SERVER is also what the settings for VS Code name.
"""

import json
import pathlib
import subprocess
import sys

URI = "file:///program.mlir"
PROGRAM = """\
llama.weight @norm : tensor<64xf32> from "model.norm.weight"
func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %norm = llama.get_weight @norm : tensor<64xf32>
  %y = llama.rmsnorm %x, %norm {eps = 1.0e-05} : tensor<?x64xf32>, tensor<64xf32>
  return %y : tensor<?x64xf32>
}
"""


class Session:
    def __init__(self, server):
        self.server = subprocess.Popen(
            [server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.asked = 0

    def send(self, method, **parameters):
        self.write({"method": method, "params": parameters})

    def ask(self, method, **parameters):
        """The result of a request."""
        self.asked += 1
        self.write({"method": method, "params": parameters, "id": self.asked})
        answer = self.read()
        assert answer["id"] == self.asked, answer
        return answer["result"]

    def at(self, method, words, letter=0):
        """The result of a request for the place of a letter in the program."""
        lines = PROGRAM.splitlines()
        line = next(i for i, text in enumerate(lines) if words in text)
        begin = lines[line].index(words)
        position = {"line": line, "character": begin + letter % len(words)}
        return self.ask(method, textDocument={"uri": URI}, position=position)

    def diagnostics(self):
        message = self.read()
        assert message["method"] == "textDocument/publishDiagnostics", message
        return message["params"]["diagnostics"]

    def write(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.server.stdin.flush()

    def read(self):
        header = self.server.stdout.readline()
        assert self.server.stdout.readline() == b"\r\n", header
        return json.loads(self.server.stdout.read(int(header.split(b": ")[1])))


def main():
    server, settings = map(pathlib.Path, sys.argv[1:])
    named = json.loads(settings.read_text())["mlir.server_path"]
    assert server.as_posix().endswith(named), named

    session = Session(server)
    able = session.ask("initialize", processId=1, capabilities={})["capabilities"]
    assert able["hoverProvider"] and able["definitionProvider"], able
    document = {"uri": URI, "languageId": "mlir", "version": 1, "text": PROGRAM}
    session.send("textDocument/didOpen", textDocument=document)
    assert session.diagnostics() == []

    # An op's formula, and the op as it is.
    said = session.at("textDocument/hover", "llama.rmsnorm")["contents"]["value"]
    assert "cast(x[t, i] / sqrt(mean_j x[t, j]^2 + eps)) * weight[i]" in said, said
    assert "Traits" not in said and '%1 = "llama.rmsnorm"(' in said, said
    # An op of another dialect has none.
    said = session.at("textDocument/hover", "return")["contents"]["value"]
    assert said.startswith('"func.return"'), said

    # From the use of a weight to where it is declared.
    (place,) = session.at("textDocument/definition", "get_weight @norm", -1)
    assert place["range"]["start"]["line"] == 0, place

    # What is wrong, and where.
    wrong = PROGRAM.replace("1.0e-05", "-1.0")
    session.send(
        "textDocument/didChange",
        textDocument={"uri": URI, "version": 2},
        contentChanges=[{"text": wrong}],
    )
    (found,) = session.diagnostics()
    assert "eps" in found["message"], found
    assert found["range"]["start"]["line"] == 3, found

    session.ask("shutdown")
    session.send("exit")
    assert session.server.wait() == 0


main()
