/// A text of a batch: its ids, its pages, and how it draws.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/batch/Drafts.h"
#include "runtime/batch/PagePool.h"
#include "runtime/device/Sampler.h"
#include "runtime/session/History.h"
#include "runtime/session/LoraSet.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace cria {

/// How a sequence draws and where it ends.
struct SequenceOptions {
  std::shared_ptr<Sampler> sampler;          // null: the likeliest id
  std::vector<int32_t> ends;                 // ids that end it
  bool wantsLogits = false;                  // of each id that is drawn
  bool wantsHidden = false;                  // each id's hidden state, once
  std::shared_ptr<const LoraSet> loras = {}; // null: the model's own adapters
  uint32_t salt = 0; // pages are shared with texts of the same number; < 2^31
};

/// The pages of a text from the `first`-th one on.
struct PageList {
  int64_t first = 0;
  std::vector<int32_t> numbers;

  int64_t size() const { return static_cast<int64_t>(numbers.size()); }
  /// The page after the last one.
  int64_t end() const { return first + size(); }
  int32_t &at(int64_t page) {
    return numbers[static_cast<size_t>(page - first)];
  }
  int32_t at(int64_t page) const {
    return numbers[static_cast<size_t>(page - first)];
  }
};

/// The numbers of the states that an id reads and writes.
struct StateNumbers {
  int32_t read = PagePool::none, written = PagePool::none;
};

/// One text.
struct Sequence : SequenceOptions {
  enum class State { Idle, Waiting, Running };

  int64_t number = 0;
  State state = State::Idle;
  uint64_t weights = 0; // what it is computed with, a number below 2^32

  /// The ids of the positions from `unknown` on, and whether the batch entry
  /// runs each.
  std::vector<int32_t> ids;
  std::vector<bool> decodes;
  bool drewLast = false; // the last one was drawn, not fed
  int64_t unknown = 0;   // positions of a restored state; their ids are unknown
  /// What they were fed, if it is kept.
  std::shared_ptr<const History> before;
  size_t restored = 0; // ids of a restored state, which no sampler has seen
  // Of a restored state: where an announced prompt ends and begins.
  int64_t announced = 0, announcedFrom = 0;
  int64_t computed = 0; // positions that are in the pages
  int64_t settled = 0;  // positions that were ever computed: entries are fixed
  int64_t reused = 0;   // of these, that were found in pages
  int64_t left = 0;     // ids to draw
  Drafts drafts;        // of these

  /// The pages of the computed positions and, during a step, of the positions
  /// that the step computes. Of window pages, those that the next ids need.
  PageList pages, windowPages;
  /// The states after the computed positions, and those that a step writes: the
  /// same ones, unless others may read them.
  int32_t ownState = PagePool::none, nextState = PagePool::none;
  int64_t entered = 0;  // the number of first pages that the pool can find
  uint64_t key = 0;     // the key of the last of these; `chain()` if none
  uint64_t lastUse = 0; // the step in which it ran

  PageList &list(PageKind kind) {
    return kind == PageKind::Window ? windowPages : pages;
  }
  const PageList &list(PageKind kind) const {
    return kind == PageKind::Window ? windowPages : pages;
  }
  /// What begins the chain of its pages: texts that may share pages have it in
  /// common.
  uint64_t chain() const { return uint64_t(salt) << 32 | weights; }
  int64_t end() const { return unknown + static_cast<int64_t>(ids.size()); }
  bool isIdle() const { return state == State::Idle; }
  bool isRunning() const { return state == State::Running; }
  /// Whether ids that it may draw later can be computed with the next one: the
  /// text is known.
  bool mayDraft() const {
    return !wantsHidden && unknown == 0 && left > 1 && computed + 1 == end();
  }
  /// Whether the hidden state at a position is wanted, and is not known yet.
  bool wantsHiddenAt(int64_t position) const {
    return wantsHidden && position >= settled;
  }
  /// The numbers of the states that an id reads and writes, of the step's first
  /// id or of a later one. Before position 0 it does not matter what is read.
  StateNumbers states(bool isFirst) const {
    return {isFirst && ownState != PagePool::none ? ownState : nextState,
            nextState};
  }
  /// The ids that are computed next.
  const int32_t *nextIds() const { return ids.data() + (computed - unknown); }
  bool decodesAt(int64_t position) const {
    return decodes[static_cast<size_t>(position - unknown)];
  }
  /// How many ids one after the other prefill is to run next, and the batch
  /// entry.
  int64_t promptRun() const { return run(/*decodes=*/false); }
  int64_t rowRun() const { return run(/*decodes=*/true); }
  /// Whether only its last id is left to compute, so that it goes on by a row.
  bool needsRow() const {
    return isRunning() && computed + 1 == end() && decodesAt(computed);
  }
  /// Whether the step that computes up to `position` draws.
  bool drawsAt(int64_t position) const { return position == end() && left > 0; }

private:
  int64_t run(bool decodes) const {
    int64_t at = computed;
    while (at < end() && decodesAt(at) == decodes)
      ++at;
    return at - computed;
  }
};

} // namespace cria
