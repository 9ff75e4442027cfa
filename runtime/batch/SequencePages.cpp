#include "runtime/batch/SequencePages.h"

#include <algorithm>
#include <utility>

namespace cria {

SequencePages::SequencePages(const Manifest &manifest, Backend &backend,
                             int64_t pages, bool reusesDrawn)
    : manifest(manifest), backend(backend), all(pages, manifest.batch->page),
      reusesDrawn(reusesDrawn) {}

int64_t SequencePages::reuse(Sequence &sequence) {
  int64_t page = all.positions(), before = sequence.computed;
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
    sequence.reused +=
        std::max<int64_t>(0, sequence.computed - sequence.settled);
    sequence.settled = std::max(sequence.settled, sequence.computed);
  }
  return sequence.computed - before;
}

void SequencePages::enter(Sequence &sequence) {
  int64_t page = all.positions();
  for (; sequence.unknown == 0; ++sequence.entered) {
    int64_t begin = sequence.entered * page;
    if (begin + page > sequence.computed)
      return;
    for (int64_t i = begin; i < begin + page && !reusesDrawn; ++i)
      if (sequence.decodesAt(i))
        return;
    sequence.key =
        all.enter(sequence.pages[static_cast<size_t>(sequence.entered)],
                  sequence.key, &sequence.ids[static_cast<size_t>(begin)]);
  }
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
}

void SequencePages::releaseUnused(Sequence &sequence) {
  auto needed = static_cast<size_t>(countFor(sequence.computed));
  for (; sequence.pages.size() > needed; sequence.pages.pop_back())
    all.release(sequence.pages.back());
}

// The last page first: of pages that are kept it is the one to go first, for
// the others can be found without it.
void SequencePages::release(Sequence &sequence) {
  sequence.computed = sequence.entered = 0;
  releaseUnused(sequence);
  sequence.key = sequence.chain();
}

Status SequencePages::read(const Sequence &sequence, int64_t pages,
                           std::byte *to) const {
  Status status;
  for (size_t cache = 0; cache < manifest.caches.size(); ++cache)
    for (int64_t i = 0; i < pages && status.ok(); ++i) {
      uint64_t bytes = manifest.caches[cache].bytes;
      status = backend.readPage(cache, sequence.pages[static_cast<size_t>(i)],
                                0, to, bytes);
      to += bytes;
    }
  return status;
}

Status SequencePages::write(Sequence &sequence, int64_t pages,
                            const std::byte *from) {
  for (int64_t i = 0; i < pages; ++i)
    sequence.pages.push_back(all.take());
  Status status;
  for (size_t cache = 0; cache < manifest.caches.size(); ++cache)
    for (int32_t page : sequence.pages) {
      uint64_t bytes = manifest.caches[cache].bytes;
      if (status.ok())
        status = backend.writePage(cache, page, 0, from, bytes);
      from += bytes;
    }
  if (!status.ok())
    release(sequence);
  return status;
}

} // namespace cria
