/// Many texts of one model at once, their KV caches in pages of one pool. See
/// Schedule.h for which of them a step runs.
///
/// Which entry runs an id depends on its text alone: prefill, unless the id was
/// drawn or belongs to a short feed (Model::shortFeed). Both give a token the
/// same bits whatever runs beside it, so the bits of a text do not depend on
/// its neighbours. For the same reason pages are found again by their content
/// only where prefill ran all ids up to their ends.
///
/// If ranks share the model, each rank makes the same calls, so that all choose
/// the same sequences and pages. Ranks add up the sums of a step and agree on
/// every id, and so a sequence fails on all ranks or on none.
#pragma once

#include "runtime/batch/BatchStep.h"
#include "runtime/batch/Schedule.h"
#include "runtime/batch/Sequence.h"
#include "runtime/batch/SequencePages.h"
#include "runtime/session/Model.h"
#include "runtime/session/SessionState.h"

#include <memory>
#include <utility>
#include <vector>

namespace cria {

/// Used by one thread at a time.
class Batch {
public:
  static Result<std::unique_ptr<Batch>>
  create(std::shared_ptr<const Model> model, const BatchOptions &options);
  /// The same on `backend`, which has the pages of `options`. No option has 0
  /// for a default.
  static Result<std::unique_ptr<Batch>>
  create(std::shared_ptr<const Model> model, const BatchOptions &options,
         std::unique_ptr<Backend> backend);

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

  /// Proposes ids that a sequence may draw from now on: the next step may
  /// compute them as drafts. FAILED_PRECONDITION if it does not run or wait, or
  /// the batch has no drafts.
  /// `masks`, if not null, has `words` words for each id, the ids that may be
  /// drawn after it; INVALID_ARGUMENT if that is none.
  Status propose(int64_t sequence, const int32_t *ids, int64_t count,
                 const uint32_t *masks = nullptr, size_t words = 0);

  /// Computes the next ids. What one sequence fails at is in its result; an
  /// error belongs to all, and the step may be tried again.
  Status step();
  /// What the last step made.
  const std::vector<BatchResult> &results() const { return schedule.results(); }
  /// Sequences that a step has work for.
  size_t unfinished() const { return runningCount() + waitingCount(); }

  /// The sequence, until the next call.
  Result<const Sequence *> sequence(int64_t number) const;

  /// The state of a sequence, as of a session. FAILED_PRECONDITION where it
  /// gave its pages back.
  Result<uint64_t> stateBytes(int64_t sequence) const;
  Status save(int64_t sequence, std::byte *state) const;
  /// Gives a sequence without ids the state that a session or sequence saved.
  /// RESOURCE_EXHAUSTED where too few pages are free. Unless the state has its
  /// ids (Manifest::keepsText), and no embeddings, they are not known, and the
  /// sequence never gives its pages back.
  Status restore(int64_t sequence, const std::byte *state, uint64_t size);

  const Model &model() const { return *shared; }
  const PagePool &pages() const { return held.pool(PageKind::Whole); }
  /// Of no pages if the model has none.
  const PagePool &windowPages() const { return held.pool(PageKind::Window); }
  const PagePool &states() const { return held.states(); }
  const BatchCounts &counts() const { return schedule.counts(); }
  size_t runningCount() const { return schedule.runningCount(); }
  size_t waitingCount() const { return schedule.waitingCount(); }
  int threads() const { return backend->threads(); }
  /// Sequences that run at once.
  int64_t texts() const { return schedule.texts(); }

private:
  Batch(std::shared_ptr<const Model> model, std::unique_ptr<Backend> backend,
        const BatchOptions &options, const Sampler &greedy);

  Result<Sequence *> find(int64_t number) const;
  Status checkOptions(const SequenceOptions &options) const;
  Status checkFeed(const Sequence &sequence, const int32_t *ids, int64_t count,
                   int64_t most) const;
  Status checkPages(const Sequence &sequence) const;
  Status checkRoom(const Sequence &sequence, int64_t positions) const;
  std::vector<std::byte> textOf(const Sequence &sequence) const;
  Status readText(const std::byte *bytes, const SessionHeader &header,
                  Sequence &sequence);
  int64_t add(std::unique_ptr<Sequence> sequence,
              const SequenceOptions &options);

  std::shared_ptr<const Model> shared;
  std::unique_ptr<Backend> backend;                 // goes before the model
  std::vector<std::unique_ptr<Sequence>> sequences; // by number
  int64_t nextNumber = 1;
  SequencePages held; // by the sequences
  int64_t draftRows;
  Schedule schedule;
  BatchStep computation;
  Chosen chosen;
};

} // namespace cria
