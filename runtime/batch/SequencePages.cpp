#include "runtime/batch/SequencePages.h"

#include <algorithm>
#include <utility>

namespace cria {

SequencePages::SequencePages(const Manifest &manifest, Backend &backend,
                             int64_t pages, int64_t states, bool reusesDrawn)
    : manifest(manifest), backend(backend), all(pages, manifest.batch->page),
      held(states, 0), reusesDrawn(reusesDrawn) {}

int64_t SequencePages::reuse(Sequence &sequence) {
  int64_t page = all.positions(), before = sequence.computed;
  uint64_t key = sequence.key; // of the last page after which states are known
  int64_t known = sequence.entered;
  int32_t states = PagePool::none;
  while (sequence.unknown == 0 &&
         sequence.computed == sequence.entered * page &&
         static_cast<int64_t>(sequence.pages.size()) == sequence.entered &&
         sequence.computed + page < sequence.end()) {
    if (!reusesDrawn && sequence.promptRun() < page)
      break;
    PagePool::Found found = all.find(sequence.key, sequence.nextIds());
    if (found.page == PagePool::none)
      break;
    sequence.pages.push_back(found.page);
    sequence.key = found.key;
    ++sequence.entered;
    sequence.computed += page;
    int32_t after =
        hasStates() ? held.find(found.key, nullptr).page : PagePool::none;
    if (hasStates() && after == PagePool::none)
      continue;
    if (states != PagePool::none)
      held.release(states);
    states = after;
    known = sequence.entered;
    key = found.key;
  }
  for (; sequence.entered > known; --sequence.entered) {
    all.release(sequence.pages.back());
    sequence.pages.pop_back();
    sequence.computed -= page;
  }
  sequence.key = key;
  if (states != PagePool::none)
    setStates(sequence, states);
  sequence.reused += std::max<int64_t>(
      0, sequence.computed - std::max(before, sequence.settled));
  sequence.settled = std::max(sequence.settled, sequence.computed);
  return sequence.computed - before;
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

// States are known near the end of a feed, and after 1, 2, 4, 8 ... pages: few
// of a long text.
void SequencePages::enter(Sequence &sequence) {
  int64_t page = all.positions();
  if (sequence.nextState != PagePool::none)
    setStates(sequence, std::exchange(sequence.nextState, PagePool::none));
  for (; sequence.unknown == 0; ++sequence.entered) {
    int64_t begin = sequence.entered * page;
    if (begin + page > sequence.computed)
      break;
    for (int64_t i = begin; i < begin + page && !reusesDrawn; ++i)
      if (sequence.decodesAt(i))
        return;
    sequence.key =
        all.enter(sequence.pages[static_cast<size_t>(sequence.entered)],
                  sequence.key, &sequence.ids[static_cast<size_t>(begin)]);
  }
  bool isChosen =
      isNearEnd(sequence) || !(sequence.entered & (sequence.entered - 1));
  if (hasStates() && isChosen && sequence.entered > 0 &&
      sequence.entered * page == sequence.computed)
    held.enter(sequence.ownState, sequence.key, nullptr);
}

Status SequencePages::fill(Sequence &sequence, size_t index, int32_t page) {
  if (index == sequence.pages.size()) {
    sequence.pages.push_back(page);
    return backend.clearPage(page);
  }
  Status status = backend.copyPage(sequence.pages[index], page);
  if (status.ok())
    std::swap(sequence.pages[index], page);
  all.release(page);
  return status;
}

void SequencePages::share(const Sequence &sequence) {
  for (int32_t page : sequence.pages)
    all.share(page);
  if (sequence.ownState != PagePool::none)
    held.share(sequence.ownState);
}

void SequencePages::releaseUnused(Sequence &sequence) {
  auto needed = static_cast<size_t>(countFor(sequence.computed));
  for (; sequence.pages.size() > needed; sequence.pages.pop_back())
    all.release(sequence.pages.back());
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
  setStates(sequence, PagePool::none);
  sequence.key = sequence.chain();
}

Status SequencePages::read(const Sequence &sequence, int64_t pages,
                           std::byte *to) const {
  Status status;
  for (size_t cache = 0; cache < manifest.caches.size(); ++cache) {
    uint64_t bytes = manifest.caches[cache].bytes;
    auto add = [&](int32_t number) {
      if (status.ok())
        status = backend.readPage(cache, number, 0, to, bytes);
      to += bytes;
    };
    if (manifest.caches[cache].isState) // of no position there may be none
      add(std::max(sequence.ownState, 0));
    else
      std::for_each(sequence.pages.begin(), sequence.pages.begin() + pages,
                    add);
  }
  return status;
}

Status SequencePages::write(Sequence &sequence, int64_t pages,
                            const std::byte *from) {
  for (int64_t i = 0; i < pages; ++i)
    sequence.pages.push_back(all.take());
  if (hasStates())
    sequence.ownState = held.take();
  Status status;
  for (size_t cache = 0; cache < manifest.caches.size(); ++cache) {
    uint64_t bytes = manifest.caches[cache].bytes;
    auto add = [&](int32_t number) {
      if (status.ok())
        status = backend.writePage(cache, number, 0, from, bytes);
      from += bytes;
    };
    if (manifest.caches[cache].isState)
      add(sequence.ownState);
    else
      std::for_each(sequence.pages.begin(), sequence.pages.end(), add);
  }
  if (!status.ok())
    release(sequence);
  return status;
}

} // namespace cria
