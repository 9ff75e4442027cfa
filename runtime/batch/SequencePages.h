/// The pages of sequences: taken from a pool, found again by their ids, copied
/// before they are written if others share them, and given back. Likewise their
/// states, which are not copied: a step reads one and writes another.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/batch/PagePool.h"
#include "runtime/batch/Sequence.h"
#include "runtime/device/Backend.h"

#include <cstddef>
#include <cstdint>

namespace cria {

class SequencePages {
public:
  /// `backend` has `pages` pages, and `states` of each state. With
  /// `reusesDrawn` pages are found again also if not all of their ids are
  /// prefill's. The first two must outlive this.
  SequencePages(const Manifest &manifest, Backend &backend, int64_t pages,
                int64_t states, bool reusesDrawn);

  const PagePool &pool() const { return all; }
  /// Of no states if the model has none.
  PagePool &states() { return held; }
  const PagePool &states() const { return held; }
  bool hasStates() const { return held.pages() > 0; }
  /// The pages that a number of positions takes.
  int64_t countFor(int64_t positions) const {
    return (positions + all.positions() - 1) / all.positions();
  }

  /// The positions that a number of pages holds.
  int64_t positionsIn(size_t pages) const {
    return static_cast<int64_t>(pages) * all.positions();
  }

  /// Takes the pages that hold the next ids of the text already, but for its
  /// last id, which is computed for its logits; with states, as far as the
  /// states after a page are known. Returns their positions, which are computed
  /// now.
  int64_t reuse(Sequence &sequence);
  /// Notes that more positions are computed: the states that were written are
  /// the sequence's. Has the pages that became full found by their ids, and
  /// after some pages the states.
  void enter(Sequence &sequence);

  /// Whether few pages of the fed ids are left to compute. Then a text that
  /// begins alike and goes on from the states here has little to compute anew.
  bool isNearEnd(const Sequence &sequence) const {
    return toLastPage(sequence) < 4 * all.positions();
  }
  /// The positions up to the last full page of the fed ids, but for their last
  /// id.
  int64_t toLastPage(const Sequence &sequence) const {
    int64_t page = all.positions();
    return (sequence.end() - 1) / page * page - sequence.computed;
  }

  /// Gives the sequence states to write. False if all are in use.
  bool provideStates(Sequence &sequence);
  /// The sequence has those states after its computed positions.
  void setStates(Sequence &sequence, int32_t number);

  /// A page for `fill`; PagePool::none if all are in use.
  int32_t take() { return all.take(); }
  /// Whether the sequence has page `index` and shares it with none.
  bool owns(const Sequence &sequence, size_t index) const {
    return index < sequence.pages.size() &&
           !all.isShared(sequence.pages[index]);
  }
  /// Makes `page` the sequence's page `index`. The page becomes a copy of the
  /// shared page that it replaces, or is cleared if it is the sequence's next
  /// one.
  Status fill(Sequence &sequence, size_t index, int32_t page);

  /// A chain of pages that no other sequence finds.
  uint64_t newChain() { return all.newKey(); }

  /// Another sequence has the same pages and states from now on.
  void share(const Sequence &sequence);
  /// Gives back the pages that hold no position that was computed, and the
  /// states after such positions.
  void releaseUnused(Sequence &sequence);
  /// Gives all pages back; nothing is computed then.
  void release(Sequence &sequence);

  /// Copies the first `pages` pages of every cache, or the state, to `to`, one
  /// cache after the other.
  Status read(const Sequence &sequence, int64_t pages, std::byte *to) const;
  /// Takes `pages` free pages and states for a sequence without pages, and
  /// copies their bytes from `from`. The caller has checked that they are free.
  /// After an error the sequence has no pages.
  Status write(Sequence &sequence, int64_t pages, const std::byte *from);

private:
  const Manifest &manifest;
  Backend &backend;
  PagePool all, held; // pages, and states
  bool reusesDrawn;
};

} // namespace cria
