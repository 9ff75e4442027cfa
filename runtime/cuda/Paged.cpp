#include "runtime/cuda/Paged.h"

#include "runtime/cuda/Model.h"

#include <algorithm>
#include <cstring>

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

Result<std::unique_ptr<Backend>> Paged::create(const Model &model,
                                               int64_t pages) {
  std::unique_ptr<Paged> made(new Paged(model));
  Current current(*made->context);
  Status status = current.status();
  if (status.ok())
    status = made->allocate(static_cast<uint64_t>(pages));
  if (status.ok())
    status = made->makeLaunches();
  if (!status.ok())
    return status;
  return std::unique_ptr<Backend>(std::move(made));
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

Status Paged::makeLaunches() {
  const Part &part = *model.manifest().cuda;
  std::vector<Launch> prefill, batch;
  Status status = expand(part.prefill, prefill);
  if (status.ok())
    status = expand(part.batch, batch);
  if (!status.ok())
    return status;
  prefillLaunches = std::move(prefill);
  batchLaunches = std::move(batch);
  return status;
}

/// A text has one position, that of its first row, and pages up to the last
/// row. Each row of several texts has a position and a table of pages.
Status Paged::step(const Step &step) {
  const BatchSpec &batch = *model.manifest().batch;
  if (step.isBatch())
    return run(batchLaunches, step, step.tokens, step.tokens * batch.width);
  int64_t end = step.position + step.tokens;
  return run(prefillLaunches, step, 1, (end + batch.page - 1) / batch.page);
}

/// Runs an entry that reads `positions` positions and `pages` numbers of pages.
Status Paged::run(std::vector<Launch> &launches, const Step &step,
                  int64_t positions, int64_t pages) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  if (Status status = use(step.loras); !status.ok())
    return status;
  auto position = static_cast<int32_t>(step.position);
  CriaStepState header = {};
  header.position = position;
  header.tokens = static_cast<int32_t>(step.tokens);
  header.first_logit = static_cast<int32_t>(step.firstLogit);
  writeState(header, step.ids);
  auto *state = static_cast<std::byte *>(pinnedState.get());
  memcpy(state + positionsOffset(), step.positions ? step.positions : &position,
         numbers(positions));
  memcpy(state + pagesOffset(), step.pages, numbers(pages));
  return perform(step, [&] {
    return compute(launches, step, pagesOffset() + numbers(pages));
  });
}

Status Paged::compute(std::vector<Launch> &launches, const Step &step,
                      uint64_t stateBytes) {
  int64_t rows = step.logitRows();
  Status status = roomFor(launches, rows);
  if (status.ok())
    status = placeEmbeddings(launches, step.embeddings, step.tokens);
  if (status.ok())
    status = enqueueState(stateBytes);
  if (status.ok())
    status = enqueueEmbeddings(step.tokens);
  if (status.ok())
    status = launch(launches, step.tokens, rows);
  // The copy to memory that is not pinned would wait as well, but for ever.
  if (status.ok())
    status = context->wait(stream.get(), "a step of a batch");
  if (!status.ok() || rows == 0)
    return status;
  status = copyOut(step.logits, logitsOf(rows),
                   static_cast<uint64_t>(rows) * rowBytes());
  return status.ok() ? context->wait(stream.get(), "copying logits") : status;
}

} // namespace cria::cuda
