#include "runtime/cuda/Paged.h"

#include "runtime/cuda/Model.h"
#include "runtime/ranks/JoinRanks.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace cria::cuda {

/// The bytes of `count` positions, ids or numbers of pages.
static uint64_t numbers(int64_t count) {
  return static_cast<uint64_t>(count) * sizeof(int32_t);
}

/// The positions of the rows follow the ids, and the tables of pages follow
/// the positions.
uint64_t Paged::positionsOffset() const {
  const Manifest &manifest = model.manifest();
  return idsOffset + numbers(std::max(manifest.chunk, manifest.batch->rows));
}

uint64_t Paged::pagesOffset() const {
  return positionsOffset() + numbers(model.manifest().batch->rows);
}

Result<std::unique_ptr<PagedBackend>> Paged::create(const Model &model,
                                                    int64_t pages) {
  std::unique_ptr<Paged> made(new Paged(model));
  Current current(*made->context);
  Status status = current.status();
  if (status.ok())
    status = made->allocate(static_cast<uint64_t>(pages));
  if (status.ok())
    status = made->expand();
  if (!status.ok())
    return status;
  return std::unique_ptr<PagedBackend>(std::move(made));
}

Status Paged::allocate(uint64_t pages) {
  const BatchSpec &spec = *model.manifest().batch;
  Status status = Runner::allocate(
      pages, pagesOffset() + numbers(spec.rows) * uint64_t(spec.width));
  CUdeviceptr state = places[Argument::State];
  places[Argument::Positions] = state + positionsOffset();
  places[Argument::Pages] = state + pagesOffset();
  return status;
}

Status Paged::expand() {
  const Part &part = *model.manifest().cuda;
  std::vector<Launch> prefill, batch;
  Status status = Runner::expand(part.prefill, prefill);
  if (status.ok())
    status = Runner::expand(part.batch, batch);
  if (!status.ok())
    return status;
  prefillLaunches = std::move(prefill);
  batchLaunches = std::move(batch);
  return status;
}

Status Paged::use(const BoundLoras *chosen) {
  return setLoras(chosen, [&] { return expand(); });
}

/// The rows have one position, that of the first, and the text's pages up to
/// the last row.
Status Paged::prefill(const PagedStep &step) {
  int64_t page = model.manifest().batch->page;
  int64_t end = step.positions[0] + step.rows;
  return run(prefillLaunches, step, 1, (end + page - 1) / page);
}

/// Each row has a position and a table of pages.
Status Paged::decode(const PagedStep &step) {
  return run(batchLaunches, step, step.rows,
             step.rows * model.manifest().batch->width);
}

/// Runs an entry that reads `positions` positions and `pages` numbers of pages.
Status Paged::run(std::vector<Launch> &launches, const PagedStep &step,
                  int64_t positions, int64_t pages) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  CriaStepState header = {};
  header.position = step.positions[0];
  header.tokens = static_cast<int32_t>(step.rows);
  header.first_logit = static_cast<int32_t>(step.firstLogit);
  writeState(header, step.ids);
  auto *state = static_cast<std::byte *>(pinnedState.get());
  memcpy(state + positionsOffset(), step.positions, numbers(positions));
  memcpy(state + pagesOffset(), step.pages, numbers(pages));
  std::optional<WaitForRanks> waiting; // in the sums
  if (model.sharedWith())
    waiting.emplace();
  return traced([&] {
    Status status = bringEmbeddings(step.ids, step.rows, step.embeddings);
    if (status.ok())
      status = compute(launches, step, pagesOffset() + numbers(pages));
    if (status.ok() && model.communicator())
      status = model.communicator()->status();
    return status.ok() ? status : ended(status, "what was launched");
  });
}

Status Paged::compute(std::vector<Launch> &launches, const PagedStep &step,
                      uint64_t stateBytes) {
  int64_t rows = step.rows - step.firstLogit;
  Status status = roomFor(launches, rows);
  if (status.ok())
    status = placeEmbeddings(launches, step.embeddings, step.rows);
  if (status.ok())
    status = enqueueState(stateBytes);
  if (status.ok())
    status = enqueueEmbeddings(step.rows);
  if (status.ok())
    status = launch(launches, step.rows, rows);
  // The copy to memory that is not pinned would wait as well, but for ever.
  if (status.ok())
    status = context->wait(stream.get(), "a step of a batch");
  if (!status.ok() || rows == 0)
    return status;
  status = copyOut(step.logits, logitsOf(rows),
                   static_cast<uint64_t>(rows) * rowBytes());
  return status.ok() ? context->wait(stream.get(), "copying logits") : status;
}

uint64_t Paged::pageBytes(size_t cache) const {
  return model.manifest().caches[cache].bytes;
}

CUdeviceptr Paged::at(size_t cache, int32_t page) const {
  return caches[cache] + pageBytes(cache) * static_cast<uint64_t>(page);
}

Status Paged::clearPage(int32_t page) {
  Current current(*context);
  Status status = current.status();
  for (size_t i = 0; i < caches.size() && status.ok(); ++i)
    status = context->check(
        (*context)->cuMemsetD8Async(at(i, page), 0, pageBytes(i), stream.get()),
        "cuMemsetD8Async", "clearing a page");
  return status;
}

Status Paged::copyPage(int32_t from, int32_t to) {
  Current current(*context);
  Status status = current.status();
  for (size_t i = 0; i < caches.size() && status.ok(); ++i)
    status =
        context->check((*context)->cuMemcpyDtoDAsync(
                           at(i, to), at(i, from), pageBytes(i), stream.get()),
                       "cuMemcpyDtoDAsync", "copying a page");
  return status;
}

Status Paged::readPage(size_t cache, int32_t page, uint64_t begin,
                       std::byte *to, uint64_t bytes) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  const char *doing = "saving a page";
  return ended(copyOut(to, at(cache, page) + begin, bytes, doing), doing);
}

Status Paged::writePage(size_t cache, int32_t page, uint64_t begin,
                        const std::byte *from, uint64_t bytes) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  const char *doing = "restoring a page";
  return ended(copyIn(at(cache, page) + begin, from, bytes, doing), doing);
}

} // namespace cria::cuda
