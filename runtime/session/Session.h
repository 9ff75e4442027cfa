/// One conversation with a model: a position, and what computes on the model's
/// device.
#pragma once

#include "runtime/base/FunctionRef.h"
#include "runtime/base/Status.h"
#include "runtime/device/Backend.h"
#include "runtime/session/Caches.h"
#include "runtime/session/History.h"
#include "runtime/session/LoraSet.h"
#include "runtime/session/Model.h"
#include "runtime/session/Outputs.h"
#include "runtime/session/SessionState.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace cria {

/// Seconds and tokens of a phase so far.
struct PhaseTime {
  double seconds = 0;
  int64_t tokens = 0;
};

/// Used by one thread at a time, except `cancel`. Sessions of one model run in
/// parallel, each on threads of its own.
class Session {
public:
  /// A session at position 0 that computes on `threads` of the CPU.
  static Result<std::unique_ptr<Session>>
  create(std::shared_ptr<const Model> model, const Threads &threads);

  /// Appends `count` ids. Returns the logits after the ids that `outputs` names
  /// for logits, and the hidden states of the ids that it names for these.
  /// Nothing is fed if an id or the length is out of range, or if hidden states
  /// are wanted and the artifact has none (FAILED_PRECONDITION). A feed that is
  /// cancelled, or whose device fails, ends between two chunks: the position
  /// counts what was fed. If the text that was fed has other frequencies in the
  /// longer one, it is computed anew first.
  Status feed(const int32_t *ids, int64_t count, const Outputs &outputs);
  Status feed(const int32_t *ids, int64_t count, cria_logits which,
              float *logits) {
    return feed(ids, count, Outputs{{which, logits}, {}});
  }

  /// Appends `count` ids; `embedding` receives their pooled hidden states, of
  /// length 1 if `normalize`.
  Status embed(const int32_t *ids, int64_t count, cria_pooling kind,
               bool normalize, float *embedding);

  /// Feeds `count` ids and draws the one that follows them. If the device can
  /// draw, the logits stay there.
  Result<int32_t> draw(const int32_t *ids, int64_t count, Sampler &sampler);

  /// Runs a source text from its first id on; the ids fed afterwards attend to
  /// it. The position is then 0. INVALID_ARGUMENT for a model without encoder,
  /// OUT_OF_RANGE beyond a chunk or the context. A model with an encoder needs
  /// this call before the first feed.
  Status encode(const int32_t *ids, int64_t count);

  /// Appends `count` embeddings, (count, hidden) f32, in place of ids. They are
  /// rounded to the type of the table of embeddings. A factor that the model
  /// has for embeddings applies to them. Nothing is fed if the length is out of
  /// range, a number is not finite in that type, or `outputs` cannot be had.
  Status feedEmbeddings(const float *rows, int64_t count, int64_t hidden,
                        const Outputs &outputs = {});

  /// Says that the text that begins at position 0 is a prompt of `count`
  /// positions, once the next feeds are done. Without this call, a prompt ends
  /// with the first feed, with the first one after it was cut, and with each
  /// feed of several positions. It matters for ropes that depend on the
  /// prompt's length.
  Status expectPrompt(int64_t count);

  /// From now on computes with `loras`, of the same model; null: with the
  /// adapters that the model was loaded with. What the caches hold stays.
  Status setLoras(std::shared_ptr<const LoraSet> loras);

  /// See Backend.
  Status trace(std::vector<KernelTime> *into) { return backend->trace(into); }

  /// The error that `feed` would return for these ids.
  Status check(const int32_t *ids, int64_t count) const;

  /// Forgets the ids from `position` on.
  Status rewind(int64_t position);

  /// Forgets the positions [begin, end); later positions move down. In a model
  /// with states or rings, they are computed anew before the next feed.
  /// UNIMPLEMENTED if later positions exist and rope does not allow it. An
  /// error of the device leaves the positions before `begin`.
  Status drop(int64_t begin, int64_t end);

  /// The bytes that `save` writes now.
  uint64_t stateBytes() const;
  /// Writes what the session holds to `state`, of `stateBytes()`.
  Status save(std::byte *state) const;
  /// Takes what a session with the same artifact and weights saved. Bad bytes
  /// change nothing; after a device's error the position is 0.
  Status restore(const std::byte *state, uint64_t size);
  /// Takes what `other`, of the same model, holds.
  Status copy(const Session &other);

  /// Copies all of a cache of the manifest to `to`, or from `from`; see
  /// docs/bisect.md.
  Status readCache(size_t index, std::byte *to) {
    return caches.read(index, 0, to, bytesOfCache(index));
  }
  Status writeCache(size_t index, const std::byte *from) {
    return caches.write(index, 0, from, bytesOfCache(index));
  }

  /// Ends the current feed, or the next one, with CRIA_CANCELLED. Safe in
  /// signal handlers.
  void cancel() { cancelled.store(true); }
  /// Forgets a cancel that came when there was nothing left to end.
  void resume() { cancelled.store(false); }

  const Model &model() const { return *shared; }
  int64_t position() const { return fed; }
  int threads() const { return backend->threads(); }
  const PhaseTime &prefillTime() const { return prefill; }
  const PhaseTime &decodeTime() const { return decode; }

private:
  uint64_t bytesOfCache(size_t index) const {
    return shared->manifest().cacheBytes(index);
  }
  /// Does a step; `last`: it is the last one of a feed.
  using StepBody = FunctionRef<Status(const Step &, bool last)>;
  /// The ids, logits and embeddings of a step.
  using MakeStep = FunctionRef<Step(int64_t done, int64_t tokens)>;
  Status readRows(std::byte *rows) const;
  Status writeRows(const std::byte *rows, const SessionHeader &header,
                   History text);
  void describe(SessionHeader &header) const;
  uint64_t rowBytes() const;
  void forget(int64_t position);
  void checkReach();
  Status checkIds(const int32_t *ids, int64_t count) const;
  Status checkLength(int64_t count, const char *what) const;
  Status checkOutputs(const Outputs &outputs, int64_t count) const;
  Status perform(Step step, int64_t earlier, bool last, StepBody body);
  int64_t promptWith(int64_t count) const;
  bool isRotatedForPrompt() const;
  Result<int64_t> recompute(bool idsFollow);
  Status inChunks(int64_t count, int64_t chunk, bool ids, PhaseTime &phase,
                  MakeStep make, StepBody body);
  Status advance(const int32_t *ids, int64_t count, MakeStep make,
                 StepBody body);
  Session(std::shared_ptr<const Model> model, std::unique_ptr<Backend> backend)
      : shared(std::move(model)), backend(std::move(backend)),
        caches(shared->manifest(), *this->backend),
        shortFeed(shared->shortFeed()) {}
  const BoundLoras *adapters() const {
    return loraSet ? &loraSet->bound() : nullptr;
  }

  std::shared_ptr<const Model> shared;
  std::shared_ptr<const LoraSet> loraSet;
  std::unique_ptr<Backend> backend; // destroyed before the model and the
                                    // adapters
  Caches caches;                    // of the backend
  const int64_t shortFeed;          // the model's
  int64_t fed = 0;
  int64_t written = 0;     // the end of the positions that the caches got
  int64_t prompt = 0;      // its positions; 0: it ends with the next feed
  int64_t expected = 0;    // its length to come; 0: none was announced
  int64_t promptBegin = 0; // where the feeds of the prompt begin
  int64_t rotated = 0; // the prompt for which the caches' rows were computed;
                       // 0: some are not there
  int64_t source = 0;  // ids of the text that was encoded
  History history;     // kept if a text may have to be computed anew
  PhaseTime prefill, decode;
  std::atomic<bool> cancelled{false};
};

} // namespace cria
