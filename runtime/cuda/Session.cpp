#include "runtime/cuda/Session.h"

#include "runtime/cuda/Model.h"
#include "runtime/device/Sampler.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace cria::cuda {

/// What the device reads of a step.
static CriaStepState stateOf(const Step &step, const CriaSampling &sampling) {
  CriaStepState state = {};
  state.position = static_cast<int32_t>(step.position);
  state.tokens = static_cast<int32_t>(step.tokens);
  state.first_logit = static_cast<int32_t>(step.firstLogit);
  state.source = static_cast<int32_t>(step.source);
  state.sampling = sampling;
  state.first_hidden = static_cast<int32_t>(step.firstHidden());
  return state;
}

Session::Session(const Model &model) : Runner(model) {}

/// A step that was launched ahead uses the session's memory.
Session::~Session() {
  Current current(*context);
  if (current.status().ok() && stream)
    (void)context->wait(stream.get(), "a decode step");
}

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
  if (status.ok())
    status = allocateDraws(1, /*answers=*/2);
  // States cannot be taken back, and rows of ropes and embeddings come from the
  // host.
  if (!status.ok() || !model.code().looksAhead() ||
      model.manifest().reach() <= 0 || model.manifest().hasRopeOfLength() ||
      model.sharedWith())
    return status;
  Result<Event> event = makeEvent(context);
  if (!event.ok())
    return event.status();
  done = std::move(*event);
  return status;
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

/// Does the `work` of a step. If the step was launched ahead, it has the right
/// adapters.
Status Session::run(const Step &step, bool launched,
                    FunctionRef<Status()> work) {
  Current current(*context);
  Status status = current.status();
  if (status.ok() && !launched)
    status = use(step.loras);
  return status.ok() ? perform(step, work) : status;
}

Status Session::step(const Step &step) {
  writeState(step, CriaSampling());
  Status status = advance(step, Wanted::Logits);
  if (status.ok() && step.isDecode())
    memcpy(step.logits, pinnedRow.get(), rowBytes());
  return status;
}

Result<std::optional<CriaSampled>> Session::drawOnDevice(const Step &step,
                                                         Sampler &sampler) {
  if (drawsOnHost(sampler))
    return std::optional<CriaSampled>();
  writeState(step, ask(sampler, 0));
  bool isNext = isExpected(step), launched = isNext && ahead;
  if (launched && !ahead->ok())
    return *std::exchange(ahead, std::nullopt);
  bool goesOn = isNext && done && replays() && !expected.sampling.seen &&
                step.position + 2 <= model.manifest().maxSeq;
  Status status = advance(step, goesOn ? Wanted::Ids : Wanted::Id, launched);
  if (!status.ok()) {
    ahead.reset(); // the step may be asked for again
    return status;
  }
  CriaSampled drawn = answer(step.position % 2);
  expect(step, drawn.id);
  return std::optional(drawn);
}

/// Whether the step, whose state is in pinned memory, feeds the id that was
/// drawn last, and draws the next id as that one was drawn.
bool Session::isExpected(const Step &step) const {
  return step.isDecode() && !step.loras && step.ids[0] == expectedId &&
         memcmp(pinnedState.get(), &expected, sizeof(expected)) == 0;
}

/// Expects the step that feeds `id`, which the step `last` has drawn.
void Session::expect(const Step &last, int32_t id) {
  CriaSampling sampling =
      static_cast<const CriaStepState *>(pinnedState.get())->sampling;
  sampling.random += CRIA_RANDOM_STEP;
  Step next = {&id, 1, last.position + last.tokens, 0, nullptr};
  next.source = last.source;
  expected = stateOf(next, sampling);
  expectedId = id;
}

Status Session::encode(const Step &step) {
  writeState(step, CriaSampling());
  return run(step, /*launched=*/false, [&] {
    Status status = ropes.enqueue(step, stream.get());
    if (status.ok())
      status = enqueueState(step.tokens);
    if (status.ok())
      status = launch(encodeLaunches, step.tokens, 0);
    return ended(status, "encoding");
  });
}

Status Session::advance(const Step &step, Wanted wanted, bool launched) {
  return run(step, launched, [&] {
    Status status = ropes.enqueue(step, stream.get());
    if (!status.ok())
      return status;
    return step.isDecode() ? decode(wanted) : prefill(step, wanted);
  });
}

void Session::writeState(const Step &step, const CriaSampling &sampling) {
  Runner::writeState(stateOf(step, sampling), step.ids);
}

/// If the host has the table, the rows of the step go along with the ids.
Status Session::enqueueState(int64_t tokens) {
  auto count = static_cast<uint64_t>(tokens);
  Status status = Runner::enqueueState(idsOffset + count * sizeof(int32_t));
  return status.ok() ? enqueueEmbeddings(tokens) : status;
}

Status Session::enqueueDecode(Wanted wanted) {
  Status status = wanted == Wanted::Ids ? Status() : enqueueState(1);
  if (status.ok())
    status = launch(decodeLaunches, 1, 1);
  if (!status.ok())
    return status;
  return wanted == Wanted::Logits
             ? copyOut(pinnedRow.get(), logitsOf(1), rowBytes())
             : launch(sampleLaunches, 1, 1, 0, /*follows=*/true);
}

/// Launches the step unless it was launched ahead, has the next one follow if
/// it is wanted, and waits for the step alone.
Status Session::decode(Wanted wanted) {
  static constexpr const char *what = "a decode step";
  auto begin = [&](Wanted kind) {
    return replay(graphs[static_cast<int>(kind)], what,
                  [&] { return enqueueDecode(kind); });
  };
  Status status;
  if (!ahead)
    status = begin(wanted == Wanted::Ids ? Wanted::Id : wanted);
  ahead.reset();
  if (!status.ok())
    return status;
  // A driver that cannot mark the step's end says why when it is waited for.
  if (wanted != Wanted::Ids ||
      (*context)->cuEventRecord(done.get(), stream.get()) != CUDA_SUCCESS)
    return context->wait(stream.get(), what);
  ahead = begin(Wanted::Ids); // its error is that of the next call
  return context->wait(done.get(), what);
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
