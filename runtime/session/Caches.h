/// The KV caches of one text, as bytes. The text has the pages 0, 1, 2, ... and
/// the states 0 of a backend, so its caches lie as they would without pages,
/// page after page. Its window pages are a ring: page i of the text is page
/// i mod R of the backend's R.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/device/Backend.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cria {

class Caches {
public:
  /// `backend` has at least the pages of a context. Both must outlive the
  /// caches.
  Caches(const Manifest &manifest, Backend &backend);

  /// Gives `step` the text's pages, and clears those that it is the first to
  /// write. Of several ids that are not a prompt's, each gets a row. They live
  /// until the next call.
  Status place(Step &step);

  /// Copies `bytes` of cache `cache`, from `begin` on, to or from the host.
  Status read(size_t cache, uint64_t begin, std::byte *to,
              uint64_t bytes) const;
  Status write(size_t cache, uint64_t begin, const std::byte *from,
               uint64_t bytes);

private:
  const Manifest &manifest;
  Backend &backend;
  std::vector<int32_t> pages; // 0, 1, 2, ...; none if caches have no pages
  std::vector<int32_t> windowPages; // likewise
  // Of the rows of a step:
  std::vector<int32_t> positions, tables, windowTables, states;
};

} // namespace cria
