#include "tools/run/LogProbs.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace cria {

using json = nlohmann::ordered_json;

Result<std::string> logProbsLine(const Run &run, int32_t id) {
  const std::vector<float> &logits = run.logits;
  auto vocabSize = static_cast<int64_t>(logits.size());
  auto count = static_cast<size_t>(std::min(*run.options.logProbs, vocabSize));
  std::vector<int32_t> ids(count + 1, id); // the likeliest, and `id`
  likeliestIds(logits.data(), vocabSize, count, ids.data());
  std::vector<double> logProbs(ids.size());
  logProbabilities(logits.data(), vocabSize, ids.data(), ids.size(),
                   logProbs.data());
  auto describe = [&](size_t i) -> Result<json> {
    json line = {{"id", ids[i]}};
    if (run.tokenizer) {
      Result<std::string> text = run.tokenizer->bytes(ids[i]);
      if (!text.ok())
        return text.status();
      line["text"] = std::move(*text);
    }
    line["logprob"] = logProbs[i];
    return line;
  };
  Result<json> line = describe(count);
  if (!line.ok())
    return line.status();
  json top = json::array();
  for (size_t i = 0; i < count; ++i) {
    Result<json> one = describe(i);
    if (!one.ok())
      return one.status();
    top.push_back(std::move(*one));
  }
  (*line)["top"] = std::move(top);
  return line->dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace cria
