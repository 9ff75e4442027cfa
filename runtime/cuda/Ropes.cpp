#include "runtime/cuda/Ropes.h"

#include "runtime/weights/RopeTables.h"

namespace cria::cuda {

Status Ropes::allocate(const std::shared_ptr<Context> &owner,
                       const Manifest &manifest) {
  context = owner;
  for (const RopeSpec &rope : manifest.ropes) {
    if (!rope.isOfSession())
      continue;
    Result<DeviceMemory> device =
        allocateDevice(context, 2 * rope.bytes(), "rope tables");
    if (!device.ok())
      return device.status();
    uint64_t rowBytes = rope.bytes() / rope.rows;
    Result<PinnedMemory> pinned = allocatePinned(
        context, 2 * static_cast<uint64_t>(manifest.chunk) * rowBytes,
        "rope tables");
    if (!pinned.ok())
      return pinned.status();
    tables.push_back({&rope, std::move(*device), std::move(*pinned)});
  }
  return Status();
}

CUdeviceptr Ropes::slot(uint64_t slot) const {
  for (const Tables &own : tables)
    for (uint64_t i = 0; i < 2; ++i)
      if (slot == own.rope->slot + i)
        return own.device.get() + i * own.rope->bytes();
  return 0;
}

Status Ropes::enqueue(const Step &step, CUstream stream) {
  for (const Tables &own : tables) {
    const RopeSpec &rope = *own.rope;
    uint64_t rowBytes = rope.bytes() / rope.rows;
    auto first = static_cast<uint64_t>(step.position);
    auto rows = static_cast<uint64_t>(step.tokens);
    auto *cosines = static_cast<float *>(own.pinned.get());
    float *sines = cosines + rows * rope.inverseFrequencies.size();
    fillRopeRows(rope, static_cast<uint64_t>(step.prompt), first, first + rows,
                 cosines, sines);
    for (uint64_t i = 0; i < 2; ++i) {
      CUresult result = (*context)->cuMemcpyHtoDAsync(
          slot(rope.slot + i) + first * rowBytes, i ? sines : cosines,
          rows * rowBytes, stream);
      if (result != CUDA_SUCCESS)
        return context->check(result, "cuMemcpyHtoDAsync",
                              "copying rope tables to the device");
    }
  }
  return Status();
}

} // namespace cria::cuda
