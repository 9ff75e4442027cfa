#include "runtime/base/Base64.h"
#include "tools/serve/Answer.h"

#include <cstdint>
#include <string_view>

namespace cria::serve {

namespace {

/// The numbers' bytes, as the API has them.
std::string_view bytesOf(const std::vector<float> &numbers) {
  return {reinterpret_cast<const char *>(numbers.data()),
          numbers.size() * sizeof(float)};
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
    json numbers =
        base64Wanted ? json(encodeBase64(bytesOf(embedding))) : json(embedding);
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
