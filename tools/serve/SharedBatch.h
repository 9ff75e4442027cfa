/// The scheduler's batch. If ranks share the model, it is that of rank 0, which
/// has the clients: the other ranks hear of its calls and make them, too.
///
/// Calls are written down, and broadcast before a step or a pass over a prompt.
/// Ranks draw what rank 0 draws, so that masks and grammars are rank 0's alone;
/// but whether there is a mask decides what the ranks compute together. Where
/// nothing is to be computed, rank 0 says so all the while, because the others
/// would give it up, and all of them sleep in between.
#pragma once

#include "tools/serve/Job.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace cria::serve {

class SharedBatch : public Batch {
public:
  /// How long ranks sleep where nothing is to be computed.
  static constexpr std::chrono::milliseconds kRest{5};

  /// The engine must outlive it.
  SharedBatch(const Engine &engine, const cria_batch_options &options);

  bool isShared() const { return engine.ranks; }

  /// As Batch's. `sampling` is what the sampler was made with, and `hasMask`
  /// whether it has a mask.
  int64_t join(const cria_sequence_options &options, const Job &job,
               const cria_sampler_options &sampling, bool hasMask);
  void feed(int64_t sequence, const std::vector<int32_t> &ids, int64_t most);
  void propose(int64_t sequence, const std::vector<int32_t> &ids,
               const std::vector<uint32_t> &masks);
  void leave(int64_t sequence);
  /// The sampler of the sequence has no mask any more.
  void unmask(int64_t sequence);

  // What follows returns when the other ranks have heard of all calls so far:
  /// The caller steps next.
  void beginStep();
  /// The caller has a session feed `ids` next, which follow `done` others of a
  /// prompt, and takes all their logits.
  void beginPass(const Job &job, const std::vector<int32_t> &ids, size_t done,
                 size_t promptSize);
  /// All ranks sleep.
  void rest();
  /// No call follows.
  void end();

private:
  template <typename T> void put(const T &value);
  template <typename T> void put(const std::vector<T> &values);
  int32_t numberOf(const LoraSet *adapters) const;
  void send();

  const Engine &engine;
  std::string calls; // that the others have not heard of
};

/// Has a session begin a prompt of this number of ids.
void beginPrompt(Session &session, const Engine &engine,
                 const LoraSet *adapters, size_t size);

/// Makes the calls of rank 0, on the other ranks, until it ends. Throws Error.
void follow(const Engine &engine, int32_t threads);

} // namespace cria::serve
