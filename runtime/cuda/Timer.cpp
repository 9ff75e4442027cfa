#include "runtime/cuda/Timer.h"

#include "runtime/cuda/Session.h"

namespace cria::cuda {

Status Timer::mark(const LaunchStep *next, CUstream stream) {
  Result<Event> event = makeEvent(context, CU_EVENT_DEFAULT);
  if (!event.ok())
    return event.status();
  marks.emplace_back(next, std::move(*event));
  return context->check(
      (*context)->cuEventRecord(marks.back().second.get(), stream),
      "cuEventRecord", "timing launches");
}

Result<std::vector<LaunchTime>> Timer::times() const {
  std::vector<LaunchTime> times;
  for (size_t i = 0; i + 1 < marks.size(); ++i) {
    if (!marks[i].first)
      continue;
    float milliseconds = 0;
    Status status = context->check(
        (*context)->cuEventElapsedTime(&milliseconds, marks[i].second.get(),
                                       marks[i + 1].second.get()),
        "cuEventElapsedTime", "timing launches");
    if (!status.ok())
      return status;
    times.push_back({marks[i].first, milliseconds * 1e-3});
  }
  return times;
}

Result<std::vector<LaunchTime>> Session::timed(const Step &step) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  if (!context->library().hasTimes())
    return Status(CRIA_UNAVAILABLE,
                  "the CUDA driver has no cuEventElapsedTime");
  CriaSampling greedy = {};
  greedy.penalty = 1;
  greedy.greedy = 1;
  ahead.reset();
  writeState(step, greedy);
  bool decodes = step.isDecode();
  Wanted what = step.firstLogit < step.tokens ? Wanted::Id : Wanted::Logits;
  Status status = bringEmbeddings(step.ids, step.tokens, step.embeddings);
  if (status.ok())
    status = ropes.enqueue(step, stream.get());
  // Launching takes the host longer than some kernels take the device. So the
  // step is done twice: the device is still at the first when the second, which
  // is timed, waits in the stream.
  Timer marks(context);
  for (Timer *wanted : {static_cast<Timer *>(nullptr), &marks}) {
    timer = wanted;
    if (status.ok())
      status = decodes ? enqueueDecode(what) : enqueuePrefill(step, what);
  }
  timer = nullptr;
  status = ended(status, "timing launches");
  if (!status.ok())
    return status;
  return marks.times();
}

} // namespace cria::cuda
