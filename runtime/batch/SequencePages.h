/// The pages of sequences: taken from a pool, found again by their ids, copied
/// before they are written if others share them, and given back.
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
  /// `backend` has `pages` pages. With `reusesDrawn` pages are found again also
  /// if not all of their ids are prefill's. The first two must outlive this.
  SequencePages(const Manifest &manifest, Backend &backend, int64_t pages,
                bool reusesDrawn);

  const PagePool &pool() const { return all; }
  /// The pages that a number of positions takes.
  int64_t countFor(int64_t positions) const {
    return (positions + all.positions() - 1) / all.positions();
  }

  /// The positions that a number of pages holds.
  int64_t positionsIn(size_t pages) const {
    return static_cast<int64_t>(pages) * all.positions();
  }

  /// Takes the pages that hold the next ids of the text already, but for its
  /// last id, which is computed for its logits. Returns their positions, which
  /// are computed now.
  int64_t reuse(Sequence &sequence);
  /// Has the pages that became full found by their ids.
  void enter(Sequence &sequence);

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

  /// Another sequence has the same pages from now on.
  void share(const Sequence &sequence);
  /// Gives back the pages that hold no position that was computed.
  void releaseUnused(Sequence &sequence);
  /// Gives all pages back; nothing is computed then.
  void release(Sequence &sequence);

  /// Copies the first `pages` pages of every cache to `to`, one cache after
  /// the other.
  Status read(const Sequence &sequence, int64_t pages, std::byte *to) const;
  /// Takes `pages` free pages for a sequence without pages, and copies their
  /// bytes from `from`. The caller has checked that this number is free. After
  /// an error the sequence has no pages.
  Status write(Sequence &sequence, int64_t pages, const std::byte *from);

private:
  const Manifest &manifest;
  Backend &backend;
  PagePool all;
  bool reusesDrawn;
};

} // namespace cria
