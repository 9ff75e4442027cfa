/// The JSON of a request, read and checked field by field.
///
/// A field that is unknown or not supported, and would change the answer, is an
/// error that names it: a client must not take an answer for something else.
#pragma once

#include "tools/serve/Exchange.h"
#include "tools/serve/Grammars.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::serve {

/// Which object a request's body is; bits of a set.
enum Endpoint : unsigned {
  Completions = 1,
  ChatCompletions = 2,
  Embeddings = 4,
  Tokenize = 8,
  Detokenize = 16,
  ApplyTemplate = 32,
  Responses = 64,
};

/// A text, or its ids.
struct Prompt {
  std::optional<std::string> text; // else `ids`
  std::vector<int32_t> ids = {};
};

struct Request {
  Endpoint endpoint = Completions;
  std::string model;
  std::vector<Prompt> prompts;
  json messages, templateOptions;  // of a chat; null if not given
  std::vector<std::string> images; // data: URLs, in the order of the messages
  json tools; // which the model may call, as a chat has them; null: none
  std::vector<std::string> toolNames;
  enum class ToolChoice { None, Auto, Required } toolChoice = ToolChoice::Auto;
  std::string toolName;      // that must be called; "": any
  bool parallelCalls = true; // else one call at most
  // Of a response, to tell it again.
  json instructions, metadata, textFormat, askedTools = json::array();
  bool addGenerationPrompt = true, addSpecialTokens = true;

  std::optional<double> temperature, topP, minP, repetitionPenalty;
  double presencePenalty = 0, frequencyPenalty = 0;
  std::optional<int64_t> topK, seed, maxTokens;
  int64_t n = 1, minTokens = 0;
  std::optional<std::vector<std::string>> stops;
  std::vector<int32_t> stopIds;
  bool ignoreEos = false, skipSpecialTokens = true;
  std::vector<std::pair<int32_t, float>> bias;
  std::optional<Constraint> constraint; // of each text
  const char *constrainedBy = "";       // the field that has it

  /// Whether the model is shown tools.
  bool mayCall() const {
    return !toolNames.empty() && toolChoice != ToolChoice::None;
  }
  bool mustCall() const { return toolChoice == ToolChoice::Required; }

  bool stream = false, includeUsage = false, echo = false, returnIds = false;
  std::optional<int64_t> logProbs; // how many of the likeliest; 0: of the drawn
  bool base64 = false;             // embeddings as bytes
};

/// The most texts that one request may ask for: prompts times `n`.
inline constexpr int64_t kMostTexts = 1024;

/// Reads `body`. `vocabSize` bounds ids.
std::optional<ApiError> parseRequest(Endpoint endpoint, std::string_view body,
                                     int64_t vocabSize, Request &request);

} // namespace cria::serve
