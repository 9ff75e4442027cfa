/// The pages of sequences: taken from a pool, found again by their ids, copied
/// before they are written if others share them, and given back. Window pages
/// have a pool of their own, and go back as soon as no later id of the text
/// sees their positions. A text can begin with the pages of another one where
/// the window pages before that position are found as well. Likewise the
/// states, which are not copied: a step reads one and writes another.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/batch/PagePool.h"
#include "runtime/batch/Sequence.h"
#include "runtime/device/Backend.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cria {

class SequencePages {
public:
  /// `backend` has these pages. With `reusesDrawn` pages are found again also
  /// if not all of their ids are prefill's. The first two must outlive this.
  SequencePages(const Manifest &manifest, Backend &backend,
                const PageCounts &pages, bool reusesDrawn);

  /// The kinds of pages that hold positions.
  const std::vector<PageKind> &kinds() const { return ofPositions; }
  const PagePool &pool(PageKind kind) const {
    return kind == PageKind::Window ? windows : all;
  }
  /// Of no states if the model has none.
  PagePool &states() { return held; }
  const PagePool &states() const { return held; }
  bool hasStates() const { return held.pages() > 0; }
  bool hasWindows() const { return spec.window > 0; }
  /// The pages that a number of positions takes.
  int64_t countFor(int64_t positions) const { return spec.countFor(positions); }
  /// The most ids that a text of `end` positions computes at once: as many as
  /// all window pages allow, but one at least.
  int64_t mostTokens(int64_t end) const {
    int64_t pages = windows.pages();
    return !hasWindows() || countFor(end) <= pages
               ? end
               : std::max<int64_t>(1, spec.windowTokens(pages));
  }
  /// The most pages that a text of `end` positions takes to compute ids, at
  /// most `tokens` of them at once.
  int64_t most(PageKind kind, int64_t end, int64_t tokens) const {
    return kind == PageKind::Whole
               ? countFor(end)
               : std::min(countFor(end), spec.windowPages(tokens));
  }

  /// Takes the pages that hold the next ids of the text already, but for its
  /// last id, which is computed for its logits; as far as the window pages
  /// before the end of a page, and the states after it, are known. Returns
  /// their positions, which are computed now.
  int64_t reuse(Sequence &sequence);
  /// Notes that more positions are computed: the states that were written are
  /// the sequence's. Has the pages that became full found by their ids, and
  /// after some pages the states. Gives window pages back that no later id
  /// needs.
  void enter(Sequence &sequence);

  /// Whether few pages of the fed ids are left to compute. Then a text that
  /// begins alike and goes on from the states here has little to compute anew.
  bool isNearEnd(const Sequence &sequence) const {
    return toLastPage(sequence) < 4 * spec.page;
  }
  /// The positions up to the last full page of the fed ids, but for their last
  /// id.
  int64_t toLastPage(const Sequence &sequence) const {
    return (sequence.end() - 1) / spec.page * spec.page - sequence.computed;
  }

  /// Gives the sequence states to write. False if all are in use.
  bool provideStates(Sequence &sequence);
  /// The sequence has those states after its computed positions.
  void setStates(Sequence &sequence, int32_t number);

  /// A page for `fill`; PagePool::none if all are in use.
  int32_t take(PageKind kind) { return poolOf(kind).take(); }
  /// Whether the sequence has page `index` and shares it with none.
  bool owns(const Sequence &sequence, PageKind kind, int64_t index) const {
    const PageList &list = sequence.list(kind);
    return index < list.end() && !pool(kind).isShared(list.at(index));
  }
  /// Makes `page` the sequence's page `index`. The page becomes a copy of the
  /// shared page that it replaces, or is cleared if it is the sequence's next
  /// one.
  Status fill(Sequence &sequence, PageKind kind, int64_t index, int32_t page);

  /// A chain of pages that no other sequence finds.
  uint64_t newChain() { return all.newKey(); }

  /// Another sequence has the same pages and states from now on.
  void share(const Sequence &sequence);
  /// Gives back the pages that hold no position that was computed, and the
  /// states after such positions.
  void releaseUnused(Sequence &sequence);
  /// Gives all pages back; nothing is computed then.
  void release(Sequence &sequence);

  /// Copies the pages of the computed positions of every cache, or the state,
  /// to `to`, one cache after the other.
  Status read(const Sequence &sequence, std::byte *to) const;
  /// Takes free pages and states for a sequence without pages, which then has
  /// this number of computed positions, and copies their bytes from `from`. The
  /// caller has checked that they are free. After an error the sequence has no
  /// pages.
  Status write(Sequence &sequence, int64_t positions, const std::byte *from);

private:
  PagePool &poolOf(PageKind kind) {
    return kind == PageKind::Window ? windows : all;
  }
  void enterPages(Sequence &sequence);
  void takeWindow(Sequence &sequence, int64_t own,
                  const std::vector<int32_t> &found);
  void releaseBehind(Sequence &sequence);

  const Manifest &manifest;
  const BatchSpec &spec;
  Backend &backend;
  PagePool all, windows, held; // pages, window pages and states
  std::vector<PageKind> ofPositions;
  bool reusesDrawn;
};

} // namespace cria
