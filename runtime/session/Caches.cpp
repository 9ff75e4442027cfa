#include "runtime/session/Caches.h"

#include <algorithm>
#include <numeric>

namespace cria {

Caches::Caches(const Manifest &manifest, Backend &backend)
    : manifest(manifest), backend(backend),
      pages(static_cast<size_t>(manifest.batch ? manifest.batch->width : 0)) {
  std::iota(pages.begin(), pages.end(), 0);
  if (pages.empty() || !manifest.batch->window)
    return;
  for (int32_t page : pages)
    windowPages.push_back(
        static_cast<int32_t>(page % manifest.batch->windowWidth));
}

/// A table for each of `rows` rows.
static const int32_t *repeated(const std::vector<int32_t> &pages, int64_t rows,
                               std::vector<int32_t> &tables) {
  tables.clear();
  for (int64_t row = 0; row < rows; ++row)
    tables.insert(tables.end(), pages.begin(), pages.end());
  return tables.data();
}

Status Caches::place(Step &step) {
  if (pages.empty())
    return Status();
  step.pages = pages.data();
  step.windowPages = windowPages.data();
  states.resize(static_cast<size_t>(2 * step.tokens));
  step.states = states.data();
  if (step.tokens > 1 && !step.isOfPrompt) {
    positions.resize(static_cast<size_t>(step.tokens));
    std::iota(positions.begin(), positions.end(),
              static_cast<int32_t>(step.position));
    step.positions = positions.data();
    step.pages = repeated(pages, step.tokens, tables);
    step.windowPages = repeated(windowPages, step.tokens, windowTables);
  }
  const BatchSpec &spec = *manifest.batch;
  Status status;
  // A text that was rewound may have left numbers in these pages.
  for (int64_t next = spec.countFor(step.position);
       next < spec.countFor(step.position + step.tokens) && status.ok();
       ++next) {
    auto index = static_cast<size_t>(next);
    status = backend.clearPage(PageKind::Whole, pages[index]);
    if (status.ok() && spec.window)
      status = backend.clearPage(PageKind::Window, windowPages[index]);
  }
  return status;
}

/// Calls `copy(page, begin, done, bytes)` for the pieces of pages that lie in
/// `bytes` bytes from `begin` on.
template <typename Copy>
static Status forPieces(uint64_t begin, uint64_t bytes, uint64_t pageBytes,
                        Copy copy) {
  Status status;
  for (uint64_t done = 0; done < bytes && status.ok();) {
    uint64_t at = (begin + done) % pageBytes,
             piece = std::min(bytes - done, pageBytes - at);
    status =
        copy(static_cast<int32_t>((begin + done) / pageBytes), at, done, piece);
    done += piece;
  }
  return status;
}

Status Caches::read(size_t cache, uint64_t begin, std::byte *to,
                    uint64_t bytes) const {
  return forPieces(begin, bytes, manifest.caches[cache].bytes,
                   [&](int32_t page, uint64_t at, uint64_t done, uint64_t n) {
                     return backend.readPage(cache, page, at, to + done, n);
                   });
}

Status Caches::write(size_t cache, uint64_t begin, const std::byte *from,
                     uint64_t bytes) {
  return forPieces(begin, bytes, manifest.caches[cache].bytes,
                   [&](int32_t page, uint64_t at, uint64_t done, uint64_t n) {
                     return backend.writePage(cache, page, at, from + done, n);
                   });
}

} // namespace cria
