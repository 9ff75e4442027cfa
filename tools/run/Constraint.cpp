#include "tools/run/Constraint.h"

#include <string>
#include <utility>

namespace cria {

/// The text of a file. An error names the option.
static Result<std::string> readFile(const std::string &path) {
  Result<Lines> file = Lines::open(path);
  return file.ok() ? file->rest() : Result<std::string>(file.status());
}

/// A schema is given as text or as a file of it.
static bool isSchema(const std::string &text) {
  size_t begin = text.find_first_not_of(" \t\n\r");
  return begin != text.npos && text[begin] == '{';
}

Status ofGrammar(Run &run, const Status &status) {
  if (status.ok())
    return status;
  run.grammarFailed = true;
  const char *option = run.options.jsonSchema ? "--json-schema: "
                       : run.options.grammar  ? "--grammar: "
                                              : "--regex: ";
  return Status(status.code(), option + status.message());
}

Status loadGrammar(Run &run) {
  const RunOptions &options = run.options;
  grammar::Notation notation = grammar::Notation::Regex;
  Result<std::string> source = options.regex.value_or("");
  if (options.jsonSchema) {
    notation = grammar::Notation::JsonSchema;
    source = isSchema(*options.jsonSchema) ? *options.jsonSchema
                                           : readFile(*options.jsonSchema);
  } else if (options.grammar) {
    notation = grammar::Notation::Gbnf;
    source = readFile(*options.grammar);
  } else if (!options.regex) {
    return Status();
  }
  if (!source.ok())
    return ofGrammar(run, source.status());
  if (!run.tokenizer)
    return ofGrammar(run,
                     {CRIA_NOT_FOUND, "needs a tokenizer, and there is none"});
  auto tokens = grammar::TokenTrie::create(*run.tokenizer);
  if (!tokens.ok())
    return ofGrammar(run, tokens.status());
  std::vector<int32_t> ends(run.generation.eos.begin(),
                            run.generation.eos.end());
  auto made =
      grammar::Grammar::create(*tokens, notation, *source, std::move(ends));
  if (!made.ok())
    return ofGrammar(run, made.status());
  run.grammar = *made;
  return Status();
}

static Status findNext(grammar::Matcher &matcher, std::vector<uint32_t> &bits) {
  return matcher.mask(bits.data(), bits.size());
}

static size_t wordsOf(int64_t vocabSize) {
  return static_cast<size_t>((vocabSize + 31) / 32);
}

NextIds::NextIds(Run &run) : run(run) {
  if (!run.matcher)
    return;
  bits.resize(wordsOf(run.manifest().vocabSize));
  found = std::async(std::launch::async, [this, &matcher = *run.matcher] {
    return findNext(matcher, bits);
  });
}

Status NextIds::allow(Sampler &sampler) {
  if (!found.valid())
    return Status();
  Status status = ofGrammar(run, found.get());
  return status.ok() ? sampler.allow(bits) : status;
}

Status allowNext(grammar::Matcher &matcher, Sampler &sampler) {
  std::vector<uint32_t> bits(wordsOf(sampler.vocabSize()));
  Status status = findNext(matcher, bits);
  return status.ok() ? sampler.allow(bits) : status;
}

} // namespace cria
