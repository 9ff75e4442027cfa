#include "runtime/text/tokenizer/PostProcessor.h"

#include "runtime/text/tokenizer/models/Vocabulary.h"

namespace cria {

using Contains = std::function<bool(int64_t)>;

static int32_t readId(const JsonCursor &place, const Contains &contains) {
  auto id = static_cast<int32_t>(place.integer(0, maxTokenIds - 1));
  if (!contains(id))
    place.fail("is " + std::to_string(id) + ", which is no token's id");
  return id;
}

/// "single" is a list of special tokens with the sequence A among them.
static PostProcessor readTemplate(const JsonCursor &post,
                                  const Contains &contains) {
  onlyKeys(post, {"type", "single", "pair", "special_tokens"});
  std::vector<int32_t> sides[2];
  int sequences = 0;
  for (const JsonCursor &piece : post["single"].elements(64)) {
    onlyKeys(piece, {"SpecialToken", "Sequence"});
    if (auto sequence = piece.find("Sequence")) {
      if ((*sequence)["id"].string() != "A" || ++sequences > 1) {
        refuse(piece, "the sequence A once");
        return {};
      }
      continue;
    }
    std::string name = piece["SpecialToken"]["id"].string();
    JsonCursor ids = post["special_tokens"][name]["ids"];
    for (const JsonCursor &id : ids.elements(64))
      sides[sequences].push_back(readId(id, contains));
  }
  if (sequences == 0)
    refuse(post["single"], "the sequence A once");
  return {sides[0], sides[1]};
}

/// BERT's and RoBERTa's: cls, the text, sep.
static PostProcessor readPair(const JsonCursor &post,
                              const Contains &contains) {
  onlyKeys(post, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  auto id = [&](const char *key) {
    std::vector<JsonCursor> pair = post[key].elements(2); // the token, its id
    if (pair.size() != 2) {
      post[key].expected("a token and its id");
      return 0;
    }
    return readId(pair[1], contains);
  };
  return {{id("cls")}, {id("sep")}};
}

PostProcessor PostProcessor::read(const JsonCursor &post, ComponentCount &count,
                                  const Contains &contains) {
  if (!count.add(post))
    return {};
  std::string type = post["type"].string();
  if (type == "TemplateProcessing")
    return readTemplate(post, contains);
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return readPair(post, contains);
  if (type == "ByteLevel") { // changes offsets only
    onlyKeys(post, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (type != "Sequence") {
    refuse(post["type"],
           "one of TemplateProcessing, BertProcessing, RobertaProcessing, "
           "ByteLevel and Sequence");
    return {};
  }
  onlyKeys(post, {"type", "processors"});
  PostProcessor all;
  for (const JsonCursor &one : post["processors"].elements(64)) {
    PostProcessor next = read(one, count, contains);
    if (next.before.empty() && next.after.empty())
      continue;
    // A second one would put its tokens around each token of the first.
    if (!all.before.empty() || !all.after.empty())
      refuse(one["type"], "one step that adds tokens");
    all = std::move(next);
  }
  return all;
}

} // namespace cria
