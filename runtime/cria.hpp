/// cria.h for C++17: objects that free themselves, and errors as exceptions.
/// Every class is one handle, moved and not copied; get() gives it to the
/// functions of cria.h that have no member here. Which threads may use an
/// object, and how long pointers live, is said there.
#pragma once

#include "cria.h"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cria {
inline namespace v1 {

/// A status that is not CRIA_OK, with its message.
class Error : public std::runtime_error {
public:
  explicit Error(const cria_error &error)
      : std::runtime_error(error.message), code(error.status) {}
  cria_status status() const { return code; }

private:
  cria_status code;
};

/// A struct of cria.h, readied.
template <typename Struct> Struct make() {
  Struct made;
  CRIA_INIT(&made);
  return made;
}

/// Calls a function of the C API with `arguments` and an error, and throws it.
template <typename Function, typename... Arguments>
void call(Function function, Arguments... arguments) {
  auto error = make<cria_error>();
  if (function(arguments..., &error) != CRIA_OK)
    throw Error(error);
}

/// Owns a handle that `release` frees.
template <typename T, void (*release)(T **)> class Handle {
public:
  T *get() const { return owned.get(); }

protected:
  /// Has `function` make the handle.
  template <typename Function, typename... Arguments>
  void open(Function function, Arguments... arguments) {
    T *made = nullptr;
    call(function, arguments..., &made);
    owned.reset(made);
  }

private:
  struct Release {
    void operator()(T *handle) const { release(&handle); }
  };
  std::unique_ptr<T, Release> owned;
};

/// A logarithm of a probability for each of `ids`: see cria_log_probabilities.
inline std::vector<double> logProbabilities(const std::vector<float> &logits,
                                            const std::vector<int32_t> &ids) {
  std::vector<double> made(ids.size());
  call(cria_log_probabilities, logits.data(),
       static_cast<int64_t>(logits.size()), ids.data(), ids.size(),
       made.data());
  return made;
}

/// The `count` likeliest ids by `vocabSize` logits, with these logarithms.
inline std::vector<std::pair<int32_t, double>>
topLogProbabilities(const float *logits, int64_t vocabSize, std::size_t count) {
  std::vector<int32_t> ids(count);
  std::vector<double> made(count);
  call(cria_top_log_probabilities, logits, vocabSize, count, ids.data(),
       made.data());
  std::vector<std::pair<int32_t, double>> pairs;
  for (std::size_t i = 0; i < count; ++i)
    pairs.emplace_back(ids[i], made[i]);
  return pairs;
}

/// Joins the processes that mpirun has started; `ranks` of cria_model_options
/// takes them.
inline cria_ranks joinRanks() {
  auto ranks = make<cria_ranks>();
  call(cria_ranks_join, &ranks);
  return ranks;
}
/// Leaves them, at the end of a process that ends well.
inline void leaveRanks() { call(cria_ranks_leave); }

/// The devices of a kind.
inline int32_t deviceCount(cria_device device) {
  int32_t count = 0;
  call(cria_device_count, device, &count);
  return count;
}
inline cria_device_info deviceInfo(cria_device device, int32_t index) {
  auto info = make<cria_device_info>();
  call(cria_device_get_info, device, index, &info);
  return info;
}

/// Text that the library has malloc'ed.
inline std::string takeText(char *text) {
  std::unique_ptr<char, decltype(&std::free)> owned(text, std::free);
  return text;
}

/// Compiled code and its manifest.
class Artifact : public Handle<cria_artifact, cria_artifact_free> {
public:
  explicit Artifact(const std::string &path) {
    open(cria_artifact_open, path.c_str());
  }
  /// Of `size` bytes at `data`.
  Artifact(const void *data, std::size_t size) {
    open(cria_artifact_open_memory, data, size);
  }
  /// Of an open file.
  explicit Artifact(int descriptor) { open(cria_artifact_open_fd, descriptor); }

  /// The manifest of a file, of which no code is loaded.
  static std::string inspect(const std::string &path,
                             cria_artifact_info *info = nullptr) {
    char *json = nullptr;
    call(cria_artifact_inspect, path.c_str(), &json, info);
    return takeText(json);
  }

  cria_artifact_info info() const {
    auto info = make<cria_artifact_info>();
    call(cria_artifact_get_info, get(), &info);
    return info;
  }
  std::string manifest() const {
    const char *json = nullptr;
    call(cria_artifact_manifest, get(), &json);
    return json;
  }
};

/// An artifact bound to weights.
class Model : public Handle<cria_model, cria_model_free> {
public:
  /// What is missing or extra in `weights`, and the memory that they take;
  /// throws where they do not fit. cria_model_check has the report then, too.
  static std::string check(const Artifact &artifact,
                           const std::string &weights) {
    char *report = nullptr;
    auto error = make<cria_error>();
    cria_model_check(artifact.get(), weights.c_str(), &report, &error);
    std::string text = report ? takeText(report) : "";
    if (error.status != CRIA_OK)
      throw Error(error);
    return text;
  }
  /// Weights drawn from a seed.
  Model(const Artifact &artifact, uint64_t seed) {
    open(cria_model_random, artifact.get(), seed);
  }
  Model(const Artifact &artifact, const std::string &weights) {
    open(cria_model_bind, artifact.get(), weights.c_str());
  }
  Model(const Artifact &artifact, const cria_model_options &options) {
    open(cria_model_load, artifact.get(), &options);
  }

  std::string device() const {
    const char *text = nullptr;
    call(cria_model_device, get(), &text);
    return text;
  }
  std::string warnings() const {
    const char *text = nullptr;
    call(cria_model_warnings, get(), &text);
    return text;
  }
  cria_model_info info() const {
    auto info = make<cria_model_info>();
    call(cria_model_get_info, get(), &info);
    return info;
  }
};

/// Adapters that sessions of a model may choose.
class LoraSet : public Handle<cria_lora_set, cria_lora_set_free> {
public:
  LoraSet(const Model &model, const std::vector<cria_lora> &loras) {
    open(cria_lora_set_create, model.get(), loras.data(), loras.size());
  }
};

/// Logits to the next id.
class Sampler : public Handle<cria_sampler, cria_sampler_free> {
public:
  Sampler(const cria_sampler_options &options, int64_t vocabSize) {
    open(cria_sampler_create, &options, vocabSize);
  }

  void accept(int32_t id) { call(cria_sampler_accept, get(), id); }
  void acceptPrompt(const std::vector<int32_t> &ids) {
    call(cria_sampler_accept_prompt, get(), ids.data(), ids.size());
  }
  int32_t sample(const std::vector<float> &logits) {
    int32_t id = 0;
    call(cria_sampler_sample, get(), logits.data(), &id);
    return id;
  }
  void setBias(const std::vector<int32_t> &ids,
               const std::vector<float> &biases) {
    call(cria_sampler_set_bias, get(), ids.data(), biases.data(),
         ids.size() < biases.size() ? ids.size() : biases.size());
  }
  /// No word: all ids.
  void allow(const std::vector<uint32_t> &bits) {
    call(cria_sampler_allow, get(), bits.data(), bits.size());
  }
};

/// One conversation.
class Session : public Handle<cria_session, cria_session_free> {
public:
  explicit Session(const Model &model, int32_t threads = 0) {
    auto options = make<cria_session_options>();
    options.threads = threads;
    open(cria_session_create, model.get(), &options);
  }
  Session(const Model &model, const cria_session_options &options) {
    open(cria_session_create, model.get(), &options);
  }

  void feed(const std::vector<int32_t> &ids) {
    call(cria_session_feed, get(), ids.data(), ids.size(), CRIA_LOGITS_NONE,
         static_cast<float *>(nullptr), std::size_t{0});
  }
  /// Feeds `ids`; `logits` has room for the rows that `which` asks for.
  void feed(const std::vector<int32_t> &ids, cria_logits which,
            std::vector<float> &logits) {
    call(cria_session_feed, get(), ids.data(), ids.size(), which, logits.data(),
         logits.size());
  }
  /// The logits after the ids at the indexes `rows`, row after row, of
  /// `vocabSize` numbers each.
  std::vector<float> feedRows(const std::vector<int32_t> &ids,
                              const std::vector<int64_t> &rows,
                              int64_t vocabSize) {
    std::vector<float> logits(rows.size() *
                              static_cast<std::size_t>(vocabSize));
    call(cria_session_feed_rows, get(), ids.data(), ids.size(), rows.data(),
         rows.size(), logits.data(), logits.size());
    return logits;
  }
  /// Embeddings (count, hidden) in place of ids.
  void feedEmbeddings(const std::vector<float> &rows, std::size_t hidden) {
    call(cria_session_feed_embeddings, get(), rows.data(),
         hidden ? rows.size() / hidden : 0, hidden);
  }
  /// The same, and returns what `outputs` asks for.
  void feedEmbeddings(const std::vector<float> &rows, std::size_t hidden,
                      const cria_outputs &outputs) {
    call(cria_session_feed_embeddings_outputs, get(), rows.data(),
         hidden ? rows.size() / hidden : 0, hidden, &outputs);
  }
  /// The source text of a model with an encoder.
  void encode(const std::vector<int32_t> &ids) {
    call(cria_session_encode, get(), ids.data(), ids.size());
  }
  void expectPrompt(std::size_t count) {
    call(cria_session_expect_prompt, get(), count);
  }
  int32_t draw(const std::vector<int32_t> &ids, Sampler &sampler) {
    int32_t id = 0;
    call(cria_session_draw, get(), ids.data(), ids.size(), sampler.get(), &id);
    return id;
  }
  /// Feeds `ids`, and returns what `outputs` asks for.
  void feed(const std::vector<int32_t> &ids, const cria_outputs &outputs) {
    call(cria_session_feed_outputs, get(), ids.data(), ids.size(), &outputs);
  }
  /// Feeds `ids`: their pooled hidden states, of `hiddenSize` numbers, which
  /// the artifact's info has.
  std::vector<float> embed(const std::vector<int32_t> &ids, int64_t hiddenSize,
                           cria_pooling pooling = CRIA_POOLING_MEAN,
                           bool normalize = false) {
    auto options = make<cria_embed_options>();
    options.pooling = pooling;
    options.normalize = normalize;
    std::vector<float> embedding(static_cast<std::size_t>(hiddenSize));
    call(cria_session_embed, get(), ids.data(), ids.size(), &options,
         embedding.data(), embedding.size());
    return embedding;
  }
  int64_t position() const {
    int64_t position = 0;
    call(cria_session_position, get(), &position);
    return position;
  }
  void rewind(int64_t position) { call(cria_session_rewind, get(), position); }
  /// Forgets the positions [begin, end); those behind move down.
  void drop(int64_t begin, int64_t end) {
    call(cria_session_drop, get(), begin, end);
  }
  void cancel() { cria_session_cancel(get()); }
  void resume() { cria_session_resume(get()); }
  /// The adapters of the feeds that follow; null: those of the model.
  void setLora(const LoraSet *set) {
    call(cria_session_set_lora, get(), set ? set->get() : nullptr);
  }
  cria_session_timings timings() const {
    auto timings = make<cria_session_timings>();
    call(cria_session_get_timings, get(), &timings);
    return timings;
  }

  std::vector<std::byte> save() const {
    std::size_t size = 0;
    call(cria_session_state_size, get(), &size);
    std::vector<std::byte> state(size);
    call(cria_session_save, get(), state.data(), size);
    return state;
  }
  void restore(const std::vector<std::byte> &state) {
    call(cria_session_restore, get(), state.data(), state.size());
  }
  /// Takes what `other`, of the same model, holds.
  void copy(const Session &other) {
    call(cria_session_copy, other.get(), get());
  }
};

/// Many texts at once.
class Batch : public Handle<cria_batch, cria_batch_free> {
public:
  explicit Batch(const Model &model, const cria_batch_options &options =
                                         make<cria_batch_options>()) {
    open(cria_batch_create, model.get(), &options);
  }

  /// A sequence that holds nothing: its number.
  int64_t
  join(const cria_sequence_options &options = make<cria_sequence_options>()) {
    int64_t sequence = 0;
    call(cria_batch_join, get(), &options, &sequence);
    return sequence;
  }
  int64_t
  fork(int64_t from,
       const cria_sequence_options &options = make<cria_sequence_options>()) {
    int64_t sequence = 0;
    call(cria_batch_fork, get(), from, &options, &sequence);
    return sequence;
  }
  void leave(int64_t sequence) { call(cria_batch_leave, get(), sequence); }
  /// Appends `ids`, after which `most` ids are drawn.
  void feed(int64_t sequence, const std::vector<int32_t> &ids, int64_t most) {
    call(cria_batch_feed, get(), sequence, ids.data(), ids.size(), most);
  }

  /// Ids that the sequence may draw next; where its sampler has a mask, with
  /// the masks after each, one behind the other (Matcher::masksAfter).
  void propose(int64_t sequence, const std::vector<int32_t> &ids,
               const std::vector<uint32_t> &masks = {}) {
    call(cria_batch_propose, get(), sequence, ids.data(), ids.size(),
         masks.empty() ? nullptr : masks.data(),
         ids.empty() ? std::size_t{0} : masks.size() / ids.size());
  }

  /// What the step made. After an error, which is one of all sequences, a step
  /// may be repeated, when `results` are read.
  std::vector<cria_batch_result> step() {
    call(cria_batch_step, get(), &count, &left);
    return results();
  }
  /// What the last step made, and if it failed, the results of sequences that
  /// failed alone; texts and logits live until the next one.
  std::vector<cria_batch_result> results() const {
    std::vector<cria_batch_result> made(count, make<cria_batch_result>());
    for (std::size_t i = 0; i < count; ++i)
      call(cria_batch_get_result, get(), i, &made[i]);
    return made;
  }
  /// Sequences that run or wait, as of the last step.
  std::size_t unfinished() const { return left; }

  /// How many ids of a sequence are computed, and how many it has.
  std::pair<int64_t, int64_t> position(int64_t sequence) const {
    int64_t computed = 0, position = 0;
    call(cria_batch_position, get(), sequence, &computed, &position);
    return {computed, position};
  }

  cria_sequence_info sequence(int64_t sequence) const {
    auto info = make<cria_sequence_info>();
    call(cria_batch_get_sequence, get(), sequence, &info);
    return info;
  }

  std::vector<std::byte> save(int64_t sequence) const {
    std::size_t size = 0;
    call(cria_batch_state_size, get(), sequence, &size);
    std::vector<std::byte> state(size);
    call(cria_batch_save, get(), sequence, state.data(), size);
    return state;
  }
  void restore(int64_t sequence, const std::vector<std::byte> &state) {
    call(cria_batch_restore, get(), sequence, state.data(), state.size());
  }
  cria_batch_info info() const {
    auto info = make<cria_batch_info>();
    call(cria_batch_get_info, get(), &info);
    return info;
  }

private:
  std::size_t count = 0, left = 0; // of the last step
};

} // namespace v1
} // namespace cria
