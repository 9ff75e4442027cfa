#include "tools/serve/Answer.h"

#include <cstdint>
#include <cstring>

namespace cria::serve {

namespace {

std::string base64(const std::vector<float> &numbers) {
  static const char letters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes(numbers.size() * sizeof(float) + 2);
  memcpy(bytes.data(), numbers.data(), numbers.size() * sizeof(float));
  size_t size = bytes.size() - 2; // two zeros follow
  std::string text;
  for (size_t i = 0; i < size; i += 3) {
    uint32_t three =
        uint32_t(bytes[i]) << 16 | uint32_t(bytes[i + 1]) << 8 | bytes[i + 2];
    for (size_t k = 0; k < 4; ++k)
      text += i + k > size ? '=' : letters[three >> (18 - 6 * k) & 63];
  }
  return text;
}

class EmbeddingsAnswer : public Delivery {
public:
  EmbeddingsAnswer(const Engine &engine, const Request &request, const Job &job)
      : Delivery(job.exchange), left(job.prompts.size()),
        base64Wanted(request.base64) {
    int64_t tokens = job.ids();
    made = {{"object", "list"},
            {"data", json::array()},
            {"model", request.model.empty() ? engine.name : request.model},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
  }

  void take(const std::vector<Event> &) override {}
  void take(size_t index, const std::vector<float> &embedding) override {
    json numbers = base64Wanted ? json(base64(embedding)) : json(embedding);
    made["data"][index] = {{"object", "embedding"},
                           {"index", index},
                           {"embedding", std::move(numbers)}};
    if (--left == 0)
      exchange->respond(toResponse(made));
  }

private:
  json made;
  size_t left;
  bool base64Wanted;
};

} // namespace

std::unique_ptr<Delivery>
answerEmbeddings(const Engine &engine, const Request &request, const Job &job) {
  return std::make_unique<EmbeddingsAnswer>(engine, request, job);
}

} // namespace cria::serve
