#include "runtime/batch/SequencePages.h"

#include <algorithm>
#include <utility>

namespace cria {

SequencePages::SequencePages(const Manifest &manifest, Backend &backend,
                             const PageCounts &pages, bool reusesDrawn)
    : manifest(manifest), spec(*manifest.batch), backend(backend),
      all(pages.whole, spec.page), windows(hasWindows() ? pages.window : 0, 0),
      held(pages.states, 0), ofPositions{PageKind::Whole},
      reusesDrawn(reusesDrawn) {
  if (hasWindows())
    ofPositions.push_back(PageKind::Window);
}

int64_t SequencePages::reuse(Sequence &sequence) {
  const int64_t page = spec.page, before = sequence.computed,
                own = sequence.entered;
  uint64_t key = sequence.key; // of the last page after which a text can begin
  int64_t known = own;
  int32_t states = PagePool::none;
  std::vector<int32_t> found; // window pages from page `own` on
  int64_t lacking = own;      // after the last of these that is not found
  while (sequence.unknown == 0 &&
         sequence.computed == sequence.entered * page &&
         sequence.pages.size() == sequence.entered &&
         sequence.computed + page < sequence.end()) {
    if (!reusesDrawn && sequence.promptRun() < page)
      break;
    PagePool::Found next = all.find(sequence.key, sequence.nextIds());
    if (next.page == PagePool::none)
      break;
    sequence.pages.numbers.push_back(next.page);
    sequence.key = next.key;
    ++sequence.entered;
    sequence.computed += page;
    if (hasWindows()) {
      found.push_back(windows.lookUp(next.key, nullptr));
      if (found.back() == PagePool::none)
        lacking = sequence.entered;
      if (lacking > std::max(own, spec.firstInWindow(sequence.computed)))
        continue;
    }
    int32_t after =
        hasStates() ? held.find(next.key, nullptr).page : PagePool::none;
    if (hasStates() && after == PagePool::none)
      continue;
    if (states != PagePool::none)
      held.release(states);
    states = after;
    known = sequence.entered;
    key = next.key;
  }
  for (; sequence.entered > known; --sequence.entered) {
    all.release(sequence.pages.numbers.back());
    sequence.pages.numbers.pop_back();
    sequence.computed -= page;
  }
  sequence.key = key;
  if (states != PagePool::none)
    setStates(sequence, states);
  if (hasWindows() && known > own)
    takeWindow(sequence, own, found);
  sequence.reused += std::max<int64_t>(
      0, sequence.computed - std::max(before, sequence.settled));
  sequence.settled = std::max(sequence.settled, sequence.computed);
  return sequence.computed - before;
}

/// Gives the sequence the window pages of its computed positions: its own, up
/// to page `own`, and of those that were found from there on, the ones that the
/// next id needs.
void SequencePages::takeWindow(Sequence &sequence, int64_t own,
                               const std::vector<int32_t> &found) {
  PageList &list = sequence.windowPages;
  releaseBehind(sequence);
  if (list.numbers.empty())
    list.first = std::max(own, spec.firstInWindow(sequence.computed));
  for (int64_t next = list.end(); next < sequence.entered; ++next) {
    list.numbers.push_back(found[static_cast<size_t>(next - own)]);
    windows.share(list.numbers.back());
  }
}

/// Gives back the window pages whose positions no later id sees.
void SequencePages::releaseBehind(Sequence &sequence) {
  if (!hasWindows())
    return;
  PageList &list = sequence.windowPages;
  int64_t count = std::clamp<int64_t>(
      spec.firstInWindow(sequence.computed) - list.first, 0, list.size());
  std::for_each(list.numbers.begin(), list.numbers.begin() + count,
                [&](int32_t page) { windows.release(page); });
  list.numbers.erase(list.numbers.begin(), list.numbers.begin() + count);
  list.first += count;
}

bool SequencePages::provideStates(Sequence &sequence) {
  bool isOwn = sequence.ownState != PagePool::none &&
               !held.isShared(sequence.ownState) &&
               !held.isEntered(sequence.ownState);
  if (hasStates() && sequence.nextState == PagePool::none)
    sequence.nextState = isOwn ? sequence.ownState : held.take();
  return !hasStates() || sequence.nextState != PagePool::none;
}

void SequencePages::setStates(Sequence &sequence, int32_t number) {
  if (sequence.ownState != PagePool::none && sequence.ownState != number)
    held.release(sequence.ownState);
  sequence.ownState = number;
}

void SequencePages::enter(Sequence &sequence) {
  if (sequence.nextState != PagePool::none)
    setStates(sequence, std::exchange(sequence.nextState, PagePool::none));
  enterPages(sequence);
  releaseBehind(sequence);
}

// States are known near the end of a feed, and after 1, 2, 4, 8 ... pages: few
// of a long text.
void SequencePages::enterPages(Sequence &sequence) {
  const int64_t page = spec.page;
  const PageList &inWindow = sequence.windowPages;
  for (; sequence.unknown == 0; ++sequence.entered) {
    int64_t begin = sequence.entered * page;
    if (begin + page > sequence.computed)
      break;
    for (int64_t i = begin; i < begin + page && !reusesDrawn; ++i)
      if (sequence.decodesAt(i))
        return;
    sequence.key = all.enter(sequence.pages.at(sequence.entered), sequence.key,
                             &sequence.ids[static_cast<size_t>(begin)]);
    // A restored text has no others.
    if (hasWindows() && sequence.entered >= inWindow.first)
      windows.enter(inWindow.at(sequence.entered), sequence.key, nullptr);
  }
  bool isChosen =
      isNearEnd(sequence) || !(sequence.entered & (sequence.entered - 1));
  if (hasStates() && isChosen && sequence.entered > 0 &&
      sequence.entered * page == sequence.computed)
    held.enter(sequence.ownState, sequence.key, nullptr);
}

Status SequencePages::fill(Sequence &sequence, PageKind kind, int64_t index,
                           int32_t page) {
  PageList &list = sequence.list(kind);
  if (list.numbers.empty())
    list.first = index;
  if (index == list.end()) {
    list.numbers.push_back(page);
    return backend.clearPage(kind, page);
  }
  Status status = backend.copyPage(kind, list.at(index), page);
  if (status.ok())
    std::swap(list.at(index), page);
  poolOf(kind).release(page);
  return status;
}

void SequencePages::share(const Sequence &sequence) {
  for (PageKind kind : ofPositions)
    for (int32_t page : sequence.list(kind).numbers)
      poolOf(kind).share(page);
  if (sequence.ownState != PagePool::none)
    held.share(sequence.ownState);
}

void SequencePages::releaseUnused(Sequence &sequence) {
  int64_t needed = countFor(sequence.computed);
  for (PageKind kind : ofPositions)
    for (PageList &list = sequence.list(kind);
         list.size() > 0 && list.end() > needed; list.numbers.pop_back())
      poolOf(kind).release(list.numbers.back());
  if (sequence.nextState != PagePool::none &&
      sequence.nextState != sequence.ownState)
    held.release(sequence.nextState);
  sequence.nextState = PagePool::none;
}

// The last page first: of pages that are kept it is the one to go first, for
// the others can be found without it.
void SequencePages::release(Sequence &sequence) {
  sequence.computed = sequence.entered = 0;
  releaseUnused(sequence);
  sequence.windowPages.first = 0;
  setStates(sequence, PagePool::none);
  sequence.key = sequence.chain();
}

/// Calls `copy(cache, number)` for the pages of the sequence's `positions`
/// positions in each cache, in the order of cacheRanges.
template <typename Copy>
static void forEachPage(const Manifest &manifest, const Sequence &sequence,
                        int64_t positions, Copy copy) {
  for (size_t i = 0; i < manifest.caches.size(); ++i) {
    PageKind kind = manifest.caches[i].kind();
    if (kind == PageKind::State) { // of no position there may be none
      copy(i, std::max(sequence.ownState, 0));
      continue;
    }
    const BatchSpec &spec = *manifest.batch;
    int64_t page = kind == PageKind::Window ? spec.firstInWindow(positions) : 0;
    for (; page < spec.countFor(positions); ++page)
      copy(i, sequence.list(kind).at(page));
  }
}

Status SequencePages::read(const Sequence &sequence, std::byte *to) const {
  Status status;
  forEachPage(manifest, sequence, sequence.computed,
              [&](size_t cache, int32_t number) {
                uint64_t bytes = manifest.caches[cache].bytes;
                if (status.ok())
                  status = backend.readPage(cache, number, 0, to, bytes);
                to += bytes;
              });
  return status;
}

Status SequencePages::write(Sequence &sequence, int64_t positions,
                            const std::byte *from) {
  sequence.windowPages.first = spec.firstInWindow(positions);
  for (PageKind kind : ofPositions)
    for (PageList &list = sequence.list(kind);
         list.end() < countFor(positions);)
      list.numbers.push_back(take(kind));
  if (hasStates())
    sequence.ownState = held.take();
  Status status;
  forEachPage(manifest, sequence, positions, [&](size_t cache, int32_t number) {
    uint64_t bytes = manifest.caches[cache].bytes;
    if (status.ok())
      status = backend.writePage(cache, number, 0, from, bytes);
    from += bytes;
  });
  if (!status.ok())
    release(sequence);
  return status;
}

} // namespace cria
