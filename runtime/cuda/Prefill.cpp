/// The arguments of a prefill's launches that differ from call to call.
#include "runtime/cuda/Model.h"
#include "runtime/cuda/Session.h"

namespace cria::cuda {

/// Makes the prefill take `to` as the address of an argument.
void Session::redirect(Argument::Kind kind, uint64_t value, CUdeviceptr to) {
  for (Launch &launch : prefillLaunches)
    for (size_t i = 0; i < launch.values.size(); ++i) {
      const Argument &argument = launch.step->arguments[i];
      if (argument.kind == kind && argument.value == value)
        launch.values[i] = to;
    }
}

/// Makes the prefill look ids up in the step's embeddings, or in the model's.
Status Session::placeEmbeddings(const Step &step) {
  const Manifest &manifest = model.manifest();
  if (!manifest.embedding)
    return Status();
  const WeightSpec &table = manifest.weights[*manifest.embedding];
  uint64_t rowBytes = manifest.embeddingBytes();
  Status status;
  if (step.embeddings && !embeddings) {
    auto allocated = allocateDevice(
        context, static_cast<uint64_t>(manifest.chunk) * rowBytes,
        "embeddings");
    if (!allocated.ok())
      return allocated.status();
    embeddings = std::move(*allocated);
  }
  if (step.embeddings)
    status = copyIn(embeddings.get(), step.embeddings,
                    static_cast<uint64_t>(step.tokens) * rowBytes);
  redirect(Argument::Weight, table.slot,
           step.embeddings ? embeddings.get() : model.slot(table.slot));
  return status;
}

/// Makes the prefill's logits hold `rows` rows.
Status Session::roomFor(int64_t rows) {
  CUdeviceptr target = rows > 1 ? logits.get() : logitsRow;
  if (rows > 1 && rows > logitsRows) {
    logits = DeviceMemory();
    logitsRows = 0;
    auto allocated = allocateDevice(
        context, static_cast<uint64_t>(rows) * rowBytes(), "logits");
    if (!allocated.ok())
      return allocated.status();
    logits = std::move(*allocated);
    logitsRows = rows;
    target = logits.get();
  }
  redirect(Argument::Logits, 0, target);
  return Status();
}

} // namespace cria::cuda
