#include "runtime/cuda/Session.h"

#include "runtime/cuda/Model.h"
#include "runtime/device/Sampler.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace cria::cuda {

Session::Session(const Model &model) : Runner(model) {}

Result<std::unique_ptr<Backend>> Session::create(const Model &model) {
  std::unique_ptr<Session> session(new Session(model));
  Current current(*session->context);
  Status status = current.status();
  if (status.ok())
    status = session->allocate();
  if (status.ok())
    status = session->makeLaunches();
  if (!status.ok())
    return status;
  return std::unique_ptr<Backend>(std::move(session));
}

Status Session::allocate() {
  Status status = Runner::allocate(
      PageCounts(), idsOffset + static_cast<uint64_t>(model.manifest().chunk) *
                                    sizeof(int32_t));
  places[Argument::Sampling] =
      places[Argument::State] + offsetof(CriaStepState, sampling);
  return status.ok() ? allocateDraws(1) : status;
}

/// Forgets the graphs, too.
Status Session::makeLaunches() {
  const Plan &plan = *model.manifest().cuda;
  Status status = expand({{&plan.prefill, &prefillLaunches},
                          {&plan.decode, &decodeLaunches},
                          {&plan.sample, &sampleLaunches},
                          {&plan.encode, &encodeLaunches}});
  if (status.ok())
    for (GraphExec &graph : graphs)
      graph = GraphExec();
  return status;
}

Status Session::step(const Step &step) {
  Current current(*context);
  Status status = current.status();
  if (status.ok())
    status = use(step.loras);
  if (!status.ok())
    return status;
  writeState(step, CriaSampling());
  status = advance(step, Wanted::Logits);
  if (status.ok() && step.isDecode())
    memcpy(step.logits, pinnedRow.get(), rowBytes());
  return status;
}

Result<std::optional<CriaSampled>> Session::drawOnDevice(const Step &step,
                                                         Sampler &sampler) {
  if (drawsOnHost(sampler))
    return std::optional<CriaSampled>();
  Current current(*context);
  Status status = current.status();
  if (status.ok())
    status = use(step.loras);
  if (!status.ok())
    return status;
  writeState(step, ask(sampler, 0));
  status = advance(step, Wanted::Id);
  if (!status.ok())
    return status;
  return std::optional(answer(0));
}

Status Session::encode(const Step &step) {
  Current current(*context);
  Status status = current.status();
  if (status.ok())
    status = use(step.loras);
  if (!status.ok())
    return status;
  writeState(step, CriaSampling());
  return traced([&] {
    status = ropes.enqueue(step, stream.get());
    if (status.ok())
      status = enqueueState(step.tokens);
    if (status.ok())
      status = launch(encodeLaunches, step.tokens, 0);
    return ended(status, "encoding");
  });
}

Status Session::advance(const Step &step, Wanted wanted) {
  return perform(step, [&] {
    Status status = ropes.enqueue(step, stream.get());
    if (!status.ok())
      return status;
    return step.isDecode() ? decode(wanted) : prefill(step, wanted);
  });
}

void Session::writeState(const Step &step, const CriaSampling &sampling) {
  Runner::writeState(
      {static_cast<int32_t>(step.position), static_cast<int32_t>(step.tokens),
       static_cast<int32_t>(step.firstLogit), static_cast<int32_t>(step.source),
       sampling, static_cast<int32_t>(step.firstHidden())},
      step.ids);
}

/// If the host has the table, the rows of the step go along with the ids.
Status Session::enqueueState(int64_t tokens) {
  auto count = static_cast<uint64_t>(tokens);
  Status status = Runner::enqueueState(idsOffset + count * sizeof(int32_t));
  return status.ok() ? enqueueEmbeddings(tokens) : status;
}

Status Session::enqueueDecode(Wanted wanted) {
  Status status = enqueueState(1);
  if (status.ok())
    status = launch(decodeLaunches, 1, 1);
  if (!status.ok())
    return status;
  return wanted == Wanted::Id
             ? launch(sampleLaunches, 1, 1, 0, /*follows=*/true)
             : copyOut(pinnedRow.get(), logitsOf(1), rowBytes());
}

Status Session::decode(Wanted wanted) {
  Status status = replay(graphs[static_cast<int>(wanted)], "a decode step",
                         [&] { return enqueueDecode(wanted); });
  return status.ok() ? context->wait(stream.get(), "a decode step") : status;
}

Status Session::enqueuePrefill(const Step &step, Wanted wanted) {
  int64_t rows = step.logitRows();
  Status status = roomFor(prefillLaunches, rows);
  if (status.ok())
    status = roomForHidden(prefillLaunches, step.hiddenRows);
  if (status.ok())
    status = placeEmbeddings(prefillLaunches, step.embeddings, step.tokens);
  if (status.ok())
    status = enqueueState(step.tokens);
  if (status.ok())
    status = launch(prefillLaunches, step.tokens, rows, step.hiddenRows);
  if (status.ok() && wanted == Wanted::Id)
    status = launch(sampleLaunches, 1, 1, 0, /*follows=*/true);
  return status;
}

Status Session::prefill(const Step &step, Wanted wanted) {
  int64_t rows = step.logitRows();
  Status status = enqueuePrefill(step, wanted);
  // The copy to memory that is not pinned would wait as well, but for ever.
  if (status.ok())
    status = context->wait(stream.get(), "a prefill step");
  if (status.ok())
    status = copyHidden(step);
  bool copies = wanted == Wanted::Logits && rows > 0;
  if (status.ok() && copies)
    status = copyOut(step.logits, logitsOf(rows),
                     static_cast<uint64_t>(rows) * rowBytes());
  return status.ok() && copies ? context->wait(stream.get(), "copying logits")
                               : status;
}

} // namespace cria::cuda
