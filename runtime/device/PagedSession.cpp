#include "runtime/device/PagedSession.h"

#include "runtime/device/Sampler.h"
#include "runtime/ranks/SharedLogits.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cria {

PagedSession::PagedSession(const Manifest &manifest,
                           std::unique_ptr<PagedBackend> pages,
                           const CriaRanks *ranks)
    : manifest(manifest), pages(std::move(pages)),
      table(static_cast<size_t>(manifest.batch->width)), ranks(ranks) {
  std::iota(table.begin(), table.end(), 0);
}

/// Does a step whose logits are split between ranks. This rank's go to `part`.
Status PagedSession::computePart(const Step &step) {
  part.resize(static_cast<size_t>((step.tokens - step.firstLogit) *
                                  manifest.logitColumns));
  Step own = step;
  own.logits = part.data();
  return stepPart(own);
}

Status PagedSession::step(const Step &step) {
  if (!manifest.sharesLogits())
    return stepPart(step);
  Status status = computePart(step);
  int64_t rows = step.tokens - step.firstLogit;
  if (status.ok() && rows > 0)
    gatherLogits(*ranks, manifest, part.data(), rows, step.logits);
  return status;
}

/// A step whose logits are those that the code computes.
Status PagedSession::stepPart(const Step &step) {
  auto position = static_cast<int32_t>(step.position);
  int64_t page = manifest.batch->page;
  // What a text left there that was rewound.
  for (int64_t first = (step.position + page - 1) / page;
       first * page < step.position + step.tokens; ++first)
    if (Status status = pages->clearPage(static_cast<int32_t>(first));
        !status.ok())
      return status;
  PagedStep rows = {step.ids,        step.tokens, &position,      table.data(),
                    step.firstLogit, step.logits, step.embeddings};
  bool decodes = step.tokens == 1 && !step.isOfPrompt;
  return decodes ? pages->decode(rows) : pages->prefill(rows);
}

Result<int32_t> PagedSession::draw(const Step &step, Sampler &sampler) {
  if (manifest.sharesLogits() && sampler.takesBest()) {
    Status status = computePart(step);
    if (!status.ok())
      return status;
    return sampler.verdict(
        bestOfRanks(*ranks, bestBid(*ranks, manifest, part.data())));
  }
  lastLogits.resize(static_cast<size_t>(manifest.vocabSize));
  Step whole = step;
  whole.logits = lastLogits.data();
  Status status = this->step(whole);
  if (!status.ok())
    return status;
  Result<int32_t> drawn = sampler.sample(lastLogits.data());
  return ranks ? agreeOnId(*ranks, std::move(drawn)) : drawn;
}

Status PagedSession::encode(const int32_t *, int64_t) {
  return Status(CRIA_UNIMPLEMENTED, "KV caches in pages hold one text alone");
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

Status PagedSession::readCache(size_t cache, uint64_t begin, std::byte *to,
                               uint64_t bytes) {
  return forPieces(begin, bytes, manifest.caches[cache].bytes,
                   [&](int32_t page, uint64_t at, uint64_t done, uint64_t n) {
                     return pages->readPage(cache, page, at, to + done, n);
                   });
}

Status PagedSession::writeCache(size_t cache, uint64_t begin,
                                const std::byte *from, uint64_t bytes) {
  return forPieces(begin, bytes, manifest.caches[cache].bytes,
                   [&](int32_t page, uint64_t at, uint64_t done, uint64_t n) {
                     return pages->writePage(cache, page, at, from + done, n);
                   });
}

} // namespace cria
