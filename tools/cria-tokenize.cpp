/// cria-tokenize: text to token ids and back.
#include "runtime/text/tokenizer/Tokenizer.h"
#include "tools/CommandLine.h"
#include "tools/Ids.h"
#include "tools/Lines.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

using namespace cria;

static int fail(const std::string &message) {
  fprintf(stderr, "cria-tokenize: error: %s\n", message.c_str());
  return 1;
}

static Result<std::string> convert(const Tokenizer &tokenizer,
                                   const std::string &input, bool decode,
                                   bool special, bool parseSpecial) {
  if (decode) {
    Result<std::vector<int32_t>> ids = parseIds(input);
    if (!ids.ok())
      return ids.status();
    for (int32_t id : *ids)
      if (!tokenizer.contains(id))
        return Status(CRIA_INVALID_ARGUMENT,
                      "id " + std::to_string(id) + " has no token");
    return tokenizer.decode(*ids, special);
  }
  Result<std::vector<int32_t>> ids =
      tokenizer.encode(input, special, parseSpecial);
  if (!ids.ok())
    return ids.status();
  return joinIds(*ids) + "\n";
}

static int run(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); // a write reports EPIPE
  CLI::App app{"Turns all text on stdin into token ids on one line, or back."};
  std::string path;
  bool noSpecial = false, noParse = false, decode = false;
  app.add_option("TOKENIZER", path,
                 "a Hugging Face tokenizer.json, or a file.gguf")
      ->required();
  app.add_flag("--no-special", noSpecial,
               "add no special tokens; with --decode, print none");
  auto *noParsing = app.add_flag("--no-parse-special", noParse,
                                 "special tokens in the text stay text");
  app.add_flag("--decode", decode,
               "turn comma-separated ids on stdin into text")
      ->excludes(noParsing);
  if (auto code = parseCommandLine(app, "cria-tokenize", argc, argv))
    return *code;

  Result<Tokenizer> tokenizer = Tokenizer::load(path);
  if (!tokenizer.ok())
    return fail(tokenizer.status().message());
  Result<Lines> lines = Lines::open("-");
  Result<std::string> input = lines->rest();
  if (!input.ok())
    return fail(input.status().message());
  Result<std::string> output =
      convert(*tokenizer, *input, decode, !noSpecial, !noParse);
  if (!output.ok())
    return fail(output.status().message());
  fwrite(output->data(), 1, output->size(), stdout);
  return finishOutput("cria-tokenize");
}

int main(int argc, char **argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc &) {
    return fail("out of memory");
  }
}
