#include "runtime/cuda/Paged.h"

#include "runtime/cuda/Model.h"
#include "runtime/device/Sampler.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cria::cuda {

/// The bytes of `count` positions, ids or numbers of pages or states.
static uint64_t numbers(int64_t count) {
  return static_cast<uint64_t>(count) * sizeof(int32_t);
}

Result<std::unique_ptr<Backend>> Paged::create(const Model &model,
                                               const PageCounts &pages) {
  std::unique_ptr<Paged> made(new Paged(model));
  Current current(*made->context);
  Status status = current.status();
  if (status.ok())
    status = made->allocate(pages);
  if (status.ok())
    status = made->makeLaunches();
  if (!status.ok())
    return status;
  return std::unique_ptr<Backend>(std::move(made));
}

/// The positions of the rows follow the ids, then two numbers of states for
/// each row, the tables of pages and of window pages, and what is drawn.
Status Paged::allocate(const PageCounts &pages) {
  const BatchSpec &spec = *model.manifest().batch;
  uint64_t row = numbers(1) * static_cast<uint64_t>(spec.rows),
           ofPositions =
               idsOffset + numbers(std::max(model.manifest().chunk, spec.rows)),
           ofStates = ofPositions + row, ofPages = ofStates + 2 * row,
           tables = row * static_cast<uint64_t>(spec.width),
           ofWindows = ofPages + tables,
           end = ofWindows + (spec.window ? tables : 0),
           ofSampling = (end + idsOffset - 1) / idsOffset * idsOffset;
  Status status =
      Runner::allocate(pages, ofSampling + static_cast<uint64_t>(spec.rows) *
                                               sizeof(CriaSampling));
  CUdeviceptr state = places[Argument::State];
  places[Argument::Positions] = state + ofPositions;
  places[Argument::States] = state + ofStates;
  places[Argument::Pages] = state + ofPages;
  places[Argument::WindowPages] = state + ofWindows;
  places[Argument::Sampling] = state + ofSampling;
  return status.ok() ? allocateDraws(spec.rows, spec.rows) : status;
}

Status Paged::makeLaunches() {
  const Plan &plan = *model.manifest().cuda;
  Status status = expand({{&plan.prefill, &prefillLaunches},
                          {&plan.batch, &batchLaunches},
                          {&plan.sample, &sampleLaunches}});
  if (status.ok())
    graphs.clear();
  return status;
}

/// The pages of a step: of a text up to its last row; of several texts a table
/// for each row.
int64_t Paged::tableSize(const Step &step) const {
  const BatchSpec &batch = *model.manifest().batch;
  return step.isBatch() ? step.tokens * batch.width
                        : batch.countFor(step.position + step.tokens);
}

/// Copies a step and its pages to pinned memory. A text has one position, that
/// of its first row, and two numbers of states. Each row of several texts has a
/// position and numbers of states.
void Paged::writeStep(const Step &step) {
  auto position = static_cast<int32_t>(step.position);
  int64_t positions = step.isBatch() ? step.tokens : 1;
  CriaStepState header = {};
  header.position = position;
  header.tokens = static_cast<int32_t>(step.tokens);
  header.first_logit = static_cast<int32_t>(step.firstLogit);
  header.source = static_cast<int32_t>(step.source);
  header.first_hidden = static_cast<int32_t>(step.firstHidden());
  writeState(header, step.ids);
  memcpy(pinned(Argument::Positions),
         step.positions ? step.positions : &position, numbers(positions));
  memcpy(pinned(Argument::States), step.states, numbers(2 * positions));
  uint64_t bytes = numbers(tableSize(step));
  memcpy(pinned(Argument::Pages), step.pages, bytes);
  if (step.windowPages)
    memcpy(pinned(Argument::WindowPages), step.windowPages, bytes);
}

/// Tells the launches of a step where its memory is.
Status Paged::place(const Step &step, int64_t first, int64_t rows) {
  Status status = roomFor(launchesOf(step), rows, first);
  if (status.ok())
    status = roomFor(sampleLaunches, rows);
  if (status.ok())
    status = roomForHidden(launchesOf(step), step.hiddenRows);
  return status.ok()
             ? placeEmbeddings(launchesOf(step), step.embeddings, step.tokens)
             : status;
}

/// Has the device do a step, and draw from `draws` rows, also where the host
/// draws afterwards.
Status Paged::enqueue(const Step &step, int64_t draws) {
  uint64_t bytes = numbers(tableSize(step));
  Status status =
      enqueueState(places[Argument::Pages] - places[Argument::State] + bytes);
  if (status.ok() && step.windowPages)
    status = copyIn(places[Argument::WindowPages],
                    pinned(Argument::WindowPages), bytes);
  if (status.ok())
    status = enqueueEmbeddings(step.tokens);
  if (status.ok())
    status = launch(launchesOf(step), step.tokens, step.logitRows(),
                    step.hiddenRows);
  if (!status.ok() || !draws)
    return status;
  status = copyIn(places[Argument::Sampling], pinned(Argument::Sampling),
                  static_cast<uint64_t>(draws) * sizeof(CriaSampling));
  return status.ok() ? launch(sampleLaunches, draws, draws) : status;
}

/// The graph of steps like this one, which draw from each of their rows; null
/// if there shall be none.
GraphExec *Paged::graphOf(const Step &step, int64_t draws) {
  if (!replays() || !step.isBatch() || step.embeddings || step.hiddenRows ||
      step.logitRows() != draws || step.tokens != draws)
    return nullptr;
  if (logitsOfGraphs != logitsOf(2))
    graphs.clear();
  logitsOfGraphs = logitsOf(2);
  graphs.resize(static_cast<size_t>(model.manifest().batch->rows));
  Recorded &recorded = graphs[static_cast<size_t>(draws) - 1];
  return std::exchange(recorded.met, true) ? &recorded.graph : nullptr;
}

Status Paged::run(const Step &step, int64_t first, int64_t rows,
                  const Draw *draws) {
  if (Status status = use(step.loras); !status.ok())
    return status;
  writeStep(step);
  int64_t drawn = draws ? rows : 0;
  writeDraws(draws, drawn);
  return perform(step, [&] {
    Status status = place(step, first, rows);
    if (!status.ok())
      return status;
    auto work = [&] { return enqueue(step, drawn); };
    GraphExec *graph = graphOf(step, drawn);
    status = graph ? replay(*graph, "a step of a batch", work) : work();
    // A copy to memory that is not pinned would wait as well, but for ever.
    if (status.ok())
      status = context->wait(stream.get(), "a step of a batch");
    return status.ok() ? copyHidden(step) : status;
  });
}

Status Paged::step(const Step &step) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  int64_t rows = step.logitRows();
  Status status = run(step, 0, rows, nullptr);
  if (!status.ok() || rows == 0)
    return status;
  return ended(copyOut(step.logits, logitsOf(rows),
                       static_cast<uint64_t>(rows) * rowBytes()),
               "copying logits");
}

Status Paged::draw(const Step *steps, size_t count, Draw *draws, size_t rows) {
  Current current(*context);
  Status status = current.status();
  auto all = static_cast<int64_t>(rows);
  int64_t first = 0;
  for (const Step *step = steps; step != steps + count && status.ok(); ++step) {
    bool isLast = step == steps + count - 1 && all > 0;
    status = run(*step, first, all, isLast ? draws : nullptr);
    first += step->logitRows();
  }
  return status.ok() ? finishDraws(draws, all) : status;
}

/// Copies what the device needs to draw to pinned memory.
void Paged::writeDraws(const Draw *draws, int64_t rows) {
  auto *asked = reinterpret_cast<CriaSampling *>(pinned(Argument::Sampling));
  CriaSampling best = {};
  best.greedy = best.penalty = 1;
  for (int64_t row = 0; row < rows; ++row) {
    Sampler &sampler = *draws[row].sampler;
    asked[row] = drawsOnHost(sampler) ? best : ask(sampler, row);
  }
}

/// Copies the rows to the host that are wanted there.
Status Paged::copyLogits(Draw *draws, int64_t rows) {
  auto wantsLogits = [](const Draw &draw) {
    return draw.wantsLogits || drawsOnHost(*draw.sampler);
  };
  int64_t wanted = std::count_if(draws, draws + rows, wantsLogits);
  if (wanted > hostRows) {
    hostLogits = PinnedMemory();
    hostRows = 0;
    auto allocated = allocatePinned(
        context, static_cast<uint64_t>(wanted) * rowBytes(), "logits");
    if (!allocated.ok())
      return allocated.status();
    hostLogits = std::move(*allocated);
    hostRows = wanted;
  }
  auto *to = static_cast<std::byte *>(hostLogits.get());
  CUdeviceptr from = logitsOf(rows);
  Status status;
  for (Draw *draw = draws; draw != draws + rows && status.ok(); ++draw) {
    if (wantsLogits(*draw)) {
      draw->logits = reinterpret_cast<const float *>(to);
      status = copyOut(to, from, rowBytes());
      to += rowBytes();
    }
    from += rowBytes();
  }
  return wanted ? ended(status, "copying logits") : status;
}

/// Takes the ids that the device drew, or draws them.
Status Paged::finishDraws(Draw *draws, int64_t rows) {
  if (Status status = copyLogits(draws, rows); !status.ok())
    return status;
  for (int64_t row = 0; row < rows; ++row) {
    Draw &draw = draws[row];
    if (drawsOnHost(*draw.sampler))
      draw.sample();
    else
      draw.id = draw.sampler->take(answer(row));
  }
  return Status();
}

} // namespace cria::cuda
