/// Many texts of one model at once, their KV caches in pages of one pool.
///
/// A step runs the next token of every sequence that decodes, in one call of
/// compiled code, and at most one chunk of one prompt, so that a long prompt
/// delays the others by the time of a chunk. Sequences run in the order in
/// which they were let in, at most as many as the artifact has rows; the others
/// wait in the order in which they were fed.
///
/// Which entry runs an id depends on its text alone: prefill, unless the id was
/// drawn or fed alone. Both give a token the same bits whatever runs beside it,
/// so the bits of a text do not depend on its neighbours. For the same reason
/// pages are found again by their content only where prefill ran all ids up to
/// their ends.
///
/// Where no page is free, either the sequence that needs one is refused, or
/// another gives all of its pages back and has them computed anew later: one
/// that does not run, the longest unused first; else the one that was let in
/// last, which may be the sequence itself. The one that was let in first
/// therefore always goes on, and no two wait for each other.
///
/// If ranks share the model, each rank makes the same calls, so that all choose
/// the same sequences and pages. Ranks add up the sums of a step and agree on
/// every id, and so a sequence fails on all ranks or on none.
#pragma once

#include "runtime/batch/PagePool.h"
#include "runtime/device/Backend.h"
#include "runtime/device/Sampler.h"
#include "runtime/session/LoraSet.h"
#include "runtime/session/Model.h"
#include "runtime/session/SessionState.h"

#include <memory>
#include <vector>

namespace cria {

struct BatchOptions {
  int threads = 0;          // as for a session
  uint64_t cacheBytes = 0;  // of the pool; 0: what `pages` says
  int64_t pages = 0;        // 0: what a context of every row takes
  int64_t chunk = 0;        // ids of a prompt in one step; 0: the artifact's
  bool refuses = false;     // a sequence that finds no page, or has it wait
  bool reusesDrawn = false; // finds pages with ids that prefill did not run
};

/// How a sequence draws and where it ends.
struct SequenceOptions {
  std::shared_ptr<Sampler> sampler;          // null: the likeliest id
  std::vector<int32_t> ends;                 // ids that end it
  bool wantsLogits = false;                  // of each id that is drawn
  std::shared_ptr<const LoraSet> loras = {}; // null: those of the model
};

/// Why a sequence runs no longer. The numbers are those of cria_finish.
enum class Finish { None, End, Length, Context, Failed };

/// What a step made of one sequence.
struct BatchResult {
  int64_t sequence;
  int32_t id; // drawn; -1: none
  Finish finish;
  Status status;       // of one that failed
  const float *logits; // (vocab), where wanted; until the next step
};

/// Counts since the batch was made.
struct BatchCounts {
  int64_t prefilled = 0, decoded = 0; // ids computed by the two entries,
  int64_t recomputed = 0;             // of them once more
  int64_t reused = 0;                 // ids found in pages
  int64_t putBack = 0;                // sequences that gave their pages back
};

/// One text.
struct Sequence : SequenceOptions {
  enum class State { Idle, Waiting, Running };

  int64_t number = 0;
  State state = State::Idle;
  uint64_t weights = 0; // what it is computed with: begins the chain of pages

  /// The ids of the positions from `unknown` on, and whether decode runs each.
  std::vector<int32_t> ids;
  std::vector<bool> decodes;
  int64_t unknown = 0;  // positions of a restored state
  int64_t computed = 0; // positions that are in the pages
  int64_t settled = 0;  // positions that were, with what entry runs each
  int64_t left = 0;     // ids to draw

  /// Those of the computed positions; during a step, of what it computes, too.
  std::vector<int32_t> pages;
  int64_t entered = 0;  // of the pages, in the pool's index
  uint64_t key = 0;     // of the last one of these
  uint64_t lastUse = 0; // the step in which it ran

  int64_t end() const { return unknown + static_cast<int64_t>(ids.size()); }
  bool decodesAt(int64_t position) const {
    return decodes[static_cast<size_t>(position - unknown)];
  }
  /// Whether the step that computes up to `position` draws.
  bool drawsAt(int64_t position) const { return position == end() && left > 0; }
};

/// Used by one thread at a time.
class Batch {
public:
  static Result<std::unique_ptr<Batch>>
  create(std::shared_ptr<const Model> model, const BatchOptions &options);
  /// The same on `backend`, which has `options.pages` pages; `options` say how
  /// many, and a chunk.
  static Result<std::unique_ptr<Batch>>
  create(std::shared_ptr<const Model> model, const BatchOptions &options,
         std::unique_ptr<PagedBackend> backend);

  /// Adds a sequence without ids, and returns its number. INVALID_ARGUMENT for
  /// a sampler of another vocabulary or sequence.
  Result<int64_t> join(const SequenceOptions &options);
  /// Adds a sequence that goes on from what `sequence` holds, in the same
  /// pages.
  Result<int64_t> fork(int64_t sequence, const SequenceOptions &options);
  /// Takes a sequence away, whatever it does.
  Status leave(int64_t sequence);

  /// Appends ids to a sequence that does not run, which then runs until it has
  /// drawn `most` ids or ends; 0: it computes the ids. No ids: it goes on where
  /// it was refused. What fails changes nothing.
  Status feed(int64_t sequence, const int32_t *ids, int64_t count,
              int64_t most);

  /// Computes the next ids. What one sequence fails at is in its result; an
  /// error is of all, and the step may be tried again.
  Status step();
  /// What the last step made.
  const std::vector<BatchResult> &results() const { return made; }
  /// Sequences that a step has work for.
  size_t unfinished() const { return running.size() + waiting.size(); }

  /// The positions that a sequence holds, and all of its ids.
  Result<std::pair<int64_t, int64_t>> position(int64_t sequence) const;

  /// The state of a sequence, as of a session. FAILED_PRECONDITION where it
  /// gave its pages back.
  Result<uint64_t> stateBytes(int64_t sequence) const;
  Status save(int64_t sequence, std::byte *state) const;
  /// Gives a sequence without ids the state that a session or sequence saved.
  /// RESOURCE_EXHAUSTED where too few pages are free. Its ids are not known, so
  /// it never gives its pages back.
  Status restore(int64_t sequence, const std::byte *state, uint64_t size);

  const Model &model() const { return *shared; }
  const PagePool &pages() const { return pool; }
  const BatchCounts &counts() const { return total; }
  size_t runningCount() const { return running.size(); }
  size_t waitingCount() const { return waiting.size(); }
  int threads() const { return backend->threads(); }

private:
  Batch(std::shared_ptr<const Model> model,
        std::unique_ptr<PagedBackend> backend, const BatchOptions &options,
        const Sampler &greedy);

  const BatchSpec &spec() const { return *shared->manifest().batch; }
  int64_t pagesOf(int64_t positions) const {
    return (positions + spec().page - 1) / spec().page;
  }
  Result<Sequence *> find(int64_t number) const;
  Status checkOptions(const SequenceOptions &options) const;
  Status checkFeed(const Sequence &sequence, const int32_t *ids, int64_t count,
                   int64_t most) const;
  Status checkPages(const Sequence &sequence) const;
  Status shortOf(int64_t number, int64_t pages, int64_t held) const;
  int64_t add(std::unique_ptr<Sequence> sequence,
              const SequenceOptions &options);
  void releaseUnused(Sequence &sequence);
  void releasePages(Sequence &sequence);

  // BatchStep.cpp
  void admit();
  bool fits(const Sequence &sequence) const;
  void reuse(Sequence &sequence);
  bool provide(Sequence &sequence, int64_t end);
  Status fill(Sequence &sequence, size_t index, int32_t page);
  int32_t takePage(Sequence &sequence);
  bool makeRoom(Sequence &sequence);
  Sequence *idleVictim(const Sequence &sequence) const;
  void putBack(Sequence &sequence);
  int64_t promptRun(const Sequence &sequence) const;
  void choose();
  Status compute();
  Status beginDraws();
  void endStep();
  Status use(const Sequence &sequence);
  Status runPrompt();
  Status runRows();
  Status runRows(size_t begin, size_t end);
  void advance(Sequence &sequence, int64_t tokens);
  void enterPages(Sequence &sequence);
  void collectDraws();
  void gatherDraws();
  void drawAll();
  void agreeOnDraws();
  void take(Sequence &sequence, const Result<int32_t> &id, const float *logits);
  void finish(Sequence &sequence, int32_t id, Finish why,
              const Status &status = {}, const float *logits = nullptr);

  std::shared_ptr<const Model> shared;
  std::unique_ptr<PagedBackend> backend; // goes before the model
  BatchOptions options;
  PagePool pool;
  BatchCounts total;
  uint64_t steps = 0;
  int64_t nextNumber = 1;
  std::vector<std::unique_ptr<Sequence>> sequences; // by number
  std::vector<Sequence *> running;                  // as they were let in
  std::vector<Sequence *> waiting;                  // the next one first

  // Of a step.
  std::vector<BatchResult> made;
  Sequence *prompt = nullptr;   // one that prefills
  int64_t promptTokens = 0;     // so many ids
  std::vector<Sequence *> rows; // those that decode, set by set of adapters
  std::vector<const float *> rowLogits; // of each row; null where it draws none
  std::vector<int32_t> rowIds, rowPositions, tables;
  std::vector<float> logits; // (rows + 1, columns); the first is the prompt's.
                             // As many columns as ids, or a rank's part
  std::vector<float> gathered; // (draws, vocab), those that read a whole row
  struct Draw {
    Sequence *sequence;
    Sampler *sampler;
    const float *logits;
    Result<int32_t> id;
    const CriaRanks *ranks; // that share these logits; null: the row is whole
    uint64_t bid;           // of this rank's part
  };
  std::vector<Draw> draws;
  std::vector<Sampler *> inUse; // by the step, so by no other thread
  std::vector<Sampler> greedy;  // as many as ever drew in a step
};

} // namespace cria
