/// cria.h for C++17: objects that free themselves, and errors as exceptions.
/// Every class is one handle, moved and not copied; get() gives it to the
/// functions of cria.h that have no member here. Which threads may use an
/// object, and how long pointers live, is said there.
#pragma once

#include "cria.h"

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
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
};

/// Logits to the next id.
class Sampler : public Handle<cria_sampler, cria_sampler_free> {
public:
  Sampler(const cria_sampler_options &options, int64_t vocabSize) {
    open(cria_sampler_create, &options, vocabSize);
  }

  void accept(int32_t id) { call(cria_sampler_accept, get(), id); }
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
  int32_t draw(const std::vector<int32_t> &ids, Sampler &sampler) {
    int32_t id = 0;
    call(cria_session_draw, get(), ids.data(), ids.size(), sampler.get(), &id);
    return id;
  }
  int64_t position() const {
    int64_t position = 0;
    call(cria_session_position, get(), &position);
    return position;
  }
  void rewind(int64_t position) { call(cria_session_rewind, get(), position); }
  void cancel() { cria_session_cancel(get()); }

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

} // namespace v1
} // namespace cria
