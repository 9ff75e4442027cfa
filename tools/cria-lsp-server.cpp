/// cria-lsp-server: editor support for IR with the llama dialect.
///
/// Upstream's server shows the generic form of an op. Its output goes through a
/// pipe, where the answer to a hover over an op of llama gets the op's
/// description: formula, shapes, an example.
#include "lowering/Compilation.h"
#include "tools/CompilerVersion.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>

using namespace llvm;

/// The reference of the dialect: dialect/README.md.
static constexpr char kReference[] =
#include "Reference.inc"
    ;

/// The description of an op in the reference: from its syntax up to its traits
/// and tables. Empty if there is no such op.
static std::string descriptionOf(StringRef op) {
  StringRef text = kReference;
  size_t begin = text.find(("### `" + op + "` (").str());
  if (begin == StringRef::npos)
    return "";
  text = text.drop_front(text.find('\n', begin));
  text = text.take_front(text.find("\n### `"));
  text = text.take_front(text.find("\n#### "));
  for (const char *table : {"\nTraits: ", "\nInterfaces: "})
    text = text.take_front(text.find(table));
  return text.trim().str();
}

/// Adds the description to a message that answers a hover over an op of llama.
static std::string described(StringRef message) {
  Expected<json::Value> parsed = json::parse(message);
  if (!parsed) {
    consumeError(parsed.takeError());
    return message.str();
  }
  json::Object *result = parsed->getAsObject();
  for (const char *key : {"result", "contents"})
    result = result ? result->getObject(key) : nullptr;
  auto value = result ? result->getString("value") : std::nullopt;
  if (!value || !value->starts_with("\"llama."))
    return message.str();
  std::string text = descriptionOf(
      value->drop_front().take_until([](char c) { return c == '"'; }));
  if (text.empty())
    return message.str();
  (*result)["value"] = text + "\n\n***\n" + value->str();
  return formatv("{0}", *parsed);
}

static void put(FILE *to, StringRef text) {
  fwrite(text.data(), 1, text.size(), to);
}

/// Passes messages from one file to another. Text without a length, such as
/// --help, passes unchanged.
static void pass(FILE *from, FILE *to) {
  char line[4096];
  size_t size = 0;
  while (fgets(line, sizeof(line), from)) {
    StringRef header = line;
    if (header.consume_front("Content-Length: ")) {
      header.trim().getAsInteger(10, size);
    } else if (size && header.trim().empty()) {
      std::string message(size, '\0');
      message.resize(fread(message.data(), 1, size, from));
      message = described(message);
      put(to, formatv("Content-Length: {0}\r\n\r\n{1}", message.size(), message)
                  .str());
      size = 0;
    } else {
      put(to, line);
    }
    fflush(to);
  }
}

/// Passes the server's output on; ends when the pipe is closed.
static std::thread passing;

/// Puts the pipe between the server and standard output.
static bool interpose() {
  int ends[2], out = dup(STDOUT_FILENO);
  if (out < 0 || pipe(ends) || dup2(ends[1], STDOUT_FILENO) < 0)
    return false;
  close(ends[1]);
  FILE *from = fdopen(ends[0], "r"), *to = fdopen(out, "w");
  if (!from || !to)
    return false;
  (void)outs(); // closed here before it is destroyed
  passing = std::thread(pass, from, to);
  return atexit([] {
           outs().flush();
           fflush(stdout);
           close(STDOUT_FILENO);
           passing.join();
         }) == 0;
}

int main(int argc, char **argv) {
  cria::setVersionPrinter("cria-lsp-server");
  cl::HideUnrelatedOptions({}); // of LLVM's code generators
  if (!interpose()) {
    errs() << "cria-lsp-server: error: standard output: cannot be filtered\n";
    return 1;
  }
  mlir::DialectRegistry registry;
  cria::registerCompilerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
