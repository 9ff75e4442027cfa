#include "tools/run/LogProbs.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cria {

using json = nlohmann::ordered_json;

Result<std::string> logProbsLine(const Run &run, int32_t id) {
  const std::vector<float> &logits = run.logits;
  double most = *std::max_element(logits.begin(), logits.end()), sum = 0;
  for (float logit : logits)
    sum += std::exp(logit - most);
  double all = most + std::log(sum);
  auto describe = [&](int32_t one) -> Result<json> {
    json line = {{"id", one}};
    if (run.tokenizer) {
      Result<std::string> text = run.tokenizer->bytes(one);
      if (!text.ok())
        return text.status();
      line["text"] = std::move(*text);
    }
    line["logprob"] = logits[static_cast<size_t>(one)] - all;
    return line;
  };
  Result<json> line = describe(id);
  if (!line.ok())
    return line.status();
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  auto last = ids.begin() + std::min<int64_t>(*run.options.logProbs,
                                              static_cast<int64_t>(ids.size()));
  std::partial_sort(ids.begin(), last, ids.end(), [&](int32_t a, int32_t b) {
    float x = logits[static_cast<size_t>(a)],
          y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  json top = json::array();
  for (auto at = ids.begin(); at != last; ++at) {
    Result<json> one = describe(*at);
    if (!one.ok())
      return one.status();
    top.push_back(std::move(*one));
  }
  (*line)["top"] = std::move(top);
  return line->dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace cria
