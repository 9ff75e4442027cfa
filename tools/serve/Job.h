/// A request that is computed, and what is told of it on its way.
///
///   worker      makes the job from a request: texts as ids, options checked
///   scheduler   computes it, and posts events to its delivery
///   I/O         the delivery makes JSON of events and writes it
///
/// A job belongs to the worker, then to the scheduler, and its delivery to the
/// thread of I/O. Only the exchange is shared: it says that the client has
/// gone.
#pragma once

#include "tools/serve/Engine.h"
#include "tools/serve/Exchange.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cria::serve {

using Clock = std::chrono::steady_clock;

/// Why a text ended.
enum class End { None, Stop, Length };

/// An id with its log-probability.
using LogProb = std::pair<int32_t, double>;

/// What one step adds to one text.
struct Event {
  size_t text = 0;   // its index among the texts of the job
  int32_t id = -1;   // that was drawn; -1: none
  std::string piece; // text that is certain now
  double logProb = 0;
  std::vector<LogProb> top; // the likeliest, if they are asked for
  End end = End::None;
  int64_t reused = 0; // with an end: ids of the prompt that were not computed
};

/// Writes the answer of one request. Only the thread of I/O uses it.
class Delivery {
public:
  explicit Delivery(std::shared_ptr<Exchange> exchange)
      : exchange(std::move(exchange)) {}
  virtual ~Delivery() = default;

  virtual void take(const std::vector<Event> &events) = 0;
  /// An embedding of text `index`.
  virtual void take(size_t index, const std::vector<float> &embedding);
  /// The ids of a prompt with their log-probabilities; the first id has none.
  virtual void takePrompt(size_t prompt, const std::vector<Event> &ids);
  /// Instead of what is left of the answer.
  virtual void fail(const ApiError &error);

protected:
  std::shared_ptr<Exchange> exchange;
};

/// A prompt as ids, and the text that it begins an answer with.
struct Ids {
  std::vector<int32_t> ids;
  std::string echo; // the ids as text, if it is wanted
};

struct Job {
  std::shared_ptr<Exchange> exchange;
  std::unique_ptr<Delivery> delivery;
  std::vector<Ids> prompts;
  const LoraSet *adapters = nullptr; // null: none
  int32_t salt = 0;                  // see cria_sequence_options
  bool embeds = false;               // else texts are generated
  bool scores = false; // the prompts' log-probabilities are wanted, too
  std::vector<PlacedImage> images; // of the one prompt, in their order
  // What a session made of the prompt with images, but for its last id.
  std::vector<std::byte> state;

  // Of generated texts: prompt i has the texts i * n to i * n + n - 1.
  int64_t n = 1, most = 0, minimum = 0; // ids to draw of each
  cria_sampler_options sampling = make<cria_sampler_options>();
  std::vector<int32_t> biasIds, endIds;
  std::vector<float> biases;
  std::vector<std::string> stops;
  std::shared_ptr<const Grammar> grammar; // null: any text
  std::optional<int64_t> logProbs;        // see Request
  // Bytes that the answer takes in memory until it is whole, so far and for
  // each id, besides its text. Estimates; 0 for a stream.
  int64_t kept = 0, keptOfId = 0;
  bool special = false;   // special tokens are a part of the text
  bool continues = false; // the text goes on from the prompt's

  Clock::time_point arrived = Clock::now();

  /// Whether a session reads the prompts before texts are drawn.
  bool needsPass() const { return scores || !images.empty(); }
  size_t texts() const {
    return embeds ? prompts.size() : prompts.size() * static_cast<size_t>(n);
  }
  int64_t ids() const {
    int64_t count = 0;
    for (const Ids &prompt : prompts)
      count += static_cast<int64_t>(prompt.ids.size());
    return count * n;
  }
};

/// Has the delivery of `job` fail, on the thread of I/O.
void fail(const std::shared_ptr<Job> &job, const ApiError &error);

} // namespace cria::serve
