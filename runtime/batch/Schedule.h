/// Which sequences of a batch run, and which wait.
///
/// A step runs the next token of every sequence that decodes, in one call of
/// compiled code, and at most one chunk of one prompt, so that a long prompt
/// delays the others by the time of a chunk. Sequences run in the order in
/// which they were let in, at most as many as the options say; the others
/// wait in the order in which they were fed.
///
/// Rows that are left compute short prompts, and ids of sequences that gave
/// their pages back: the ids of one after the other, as many as there are rows.
/// Rows that are still left, up to a number that the caller gives, compute ids
/// that the sequences may draw next: see Drafts.h.
///
/// Where no page of a kind is free, either the sequence that needs one is
/// refused, or another gives all of its pages back and has them computed anew
/// later: one that does not run, the longest unused first; else the one that
/// was let in last, which may be the sequence itself. The one that was let in
/// first therefore always goes on, and no two wait for each other. A restored
/// one, whose ids are not known, keeps its pages, and so it is let in before
/// others.
#pragma once

#include "runtime/batch/Sequence.h"
#include "runtime/batch/SequencePages.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace cria {

struct BatchOptions {
  int threads = 0;         // as for a session
  uint64_t cacheBytes = 0; // of the pools; 0: what the next two say
  int64_t pages = 0;       // 0: what a context of every text takes
  int64_t windowPages = 0; // 0: what the windows of twice the texts take
  int64_t chunk = 0;       // ids of a prompt in one step; 0: the artifact's
  bool refuses = false;    // fails a sequence that finds no page; else it waits
  bool reusesDrawn = false; // also reuses pages whose ids decode ran
  int64_t draftRows = 0;    // drafts fill a step up to this number of rows
  int64_t texts = 0; // sequences that run at once; 0: as many as there are rows
  int64_t states = 0; // of each state; 0: as many as `texts` and drafts take
};

/// Why a sequence stopped; None if it goes on. The values equal cria_finish's.
enum class Finish { None, End, Length, Context, Failed };

/// What a step made of one sequence.
struct BatchResult {
  int64_t sequence;
  int32_t id; // the drawn id; -1 if none was drawn
  Finish finish;
  Status status;       // why it failed, if `finish` is Failed
  const float *logits; // (vocab), where wanted; until the next step
  /// (hiddenRows, hidden size), likewise: of ids that the step has computed.
  const float *hidden = nullptr;
  int64_t hiddenRows = 0;
};

/// Counts since the batch was made.
struct BatchCounts {
  int64_t prefilled = 0, decoded = 0; // ids that prefill and batch computed
  int64_t recomputed = 0; // ids among them that had been computed before
  int64_t reused = 0;     // ids that were found in pages
  int64_t putBack = 0;    // times that a sequence gave its pages back
  int64_t drafted = 0;    // ids that were computed in case they are drawn
  int64_t accepted = 0;   // of these, that were drawn; they count as decoded
};

/// An id that the batch entry runs.
struct Row {
  Sequence *sequence;
  int32_t id;
  int64_t position;
  bool draws;   // from its logits
  bool isDraft; // not of the text yet
  StateNumbers states = {};
  /// Of a draft: the ids that may be drawn after it; null if the sampler says.
  const std::vector<uint32_t> *mask = nullptr;
  const float *hidden = nullptr; // its hidden state, once computed and wanted
};

/// What a step computes.
struct Chosen {
  Sequence *prompt = nullptr; // the sequence that prefills; null for none
  int64_t promptTokens = 0;   // the number of ids that it prefills
  StateNumbers promptStates = {};
  /// The hidden states of the last of these, as of a row.
  const float *hidden = nullptr;
  int64_t hiddenRows = 0;
  /// The next ids of sequences, then drafts. Those of a sequence are in the
  /// order of their positions.
  std::vector<Row> rows;
  std::vector<int32_t> draftStates; // the states that drafts write
};

class Schedule {
public:
  /// In `options` no 0 stands for a default. The manifest, the pages and
  /// `sequences`, all of the batch, must outlive the schedule.
  Schedule(const Manifest &manifest, const BatchOptions &options,
           SequencePages &pages,
           const std::vector<std::unique_ptr<Sequence>> &sequences);

  /// A step changes sequences and takes no memory for that, so that it may fail
  /// for want of memory only before. Call this with the number of sequences.
  void reserve(size_t count);
  /// Has a sequence that was fed wait for its turn.
  void add(Sequence &sequence);
  void remove(const Sequence &sequence);

  /// Begins a step: lets sequences in, decides what is computed, and finds the
  /// pages for it.
  void begin(Chosen &chosen);
  /// Tells the caller of hidden states of a sequence's next ids.
  void give(const Sequence &sequence, const float *hidden, int64_t rows) {
    made.push_back(
        {sequence.number, -1, Finish::None, {}, nullptr, hidden, rows});
  }
  /// Notes that what was chosen is computed.
  void advance(const Chosen &chosen);
  /// Appends an id that was drawn from the logits of a row, or of a prompt,
  /// unless the row was a draft that the text has not drawn.
  void take(const Row &row, const Result<int32_t> &id, const float *logits);
  /// Computes anew what the step may have half done: states that it overwrites.
  void fail(const Chosen &chosen);
  /// Gives back, however the step ended, pages for positions that were not
  /// computed, and states of drafts that were not drawn.
  void end(Chosen &chosen);

  /// OK if both pools have the pages that a sequence needs to go on to `end`
  /// positions; else RESOURCE_EXHAUSTED.
  Status checkFits(const Sequence &sequence, int64_t end) const;
  /// RESOURCE_EXHAUSTED: a sequence needs this number of pages.
  Status shortOf(const Sequence &sequence, PageKind kind, int64_t needed) const;

  /// What the step made.
  const std::vector<BatchResult> &results() const { return made; }
  const BatchCounts &counts() const { return total; }
  uint64_t steps() const { return begun; }
  int64_t texts() const { return options.texts; }
  size_t runningCount() const { return running.size(); }
  size_t waitingCount() const { return waiting.size(); }

private:
  int64_t mostPages(const Sequence &sequence, PageKind kind, int64_t end) const;
  int64_t pagesToGoOn(const Sequence &sequence, PageKind kind) const;
  std::optional<PageKind> lackingFor(const Sequence &sequence) const;
  void admit();
  int64_t promptTokens(const Sequence &sequence) const;
  void addRows(Sequence &sequence, int64_t most, Chosen &chosen);
  void addDrafts(Chosen &chosen);
  bool provide(Sequence &sequence, int64_t end);
  int64_t provideDrafts(Sequence &sequence, int64_t count);
  int64_t provideDraftStates(int64_t count, Chosen &chosen);
  bool provide(Sequence &sequence, PageKind kind, int64_t end);
  int32_t takePage(Sequence &sequence, PageKind kind);
  Sequence *idleVictim(const Sequence &sequence) const;
  bool makeRoom(Sequence &sequence, PageKind kind);
  void putBack(Sequence &sequence);
  void advance(Sequence &sequence, int64_t tokens);
  bool takeDraft(const Row &row, const Status &drawn);
  void finish(Sequence &sequence, int32_t id, Finish why,
              const Status &status = {}, const float *logits = nullptr);

  const Manifest &manifest;
  const BatchOptions options;
  SequencePages &pages;
  const std::vector<std::unique_ptr<Sequence>> &sequences;
  std::vector<Sequence *> running; // as they were let in, restored ones first
  std::vector<Sequence *> waiting; // the next one first
  std::vector<BatchResult> made;
  BatchCounts total;
  uint64_t begun = 0; // steps
};

} // namespace cria
