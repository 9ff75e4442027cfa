/// A build without batches: none is made, so the other functions are only here
/// to be linked.
#include "runtime/batch/Batch.h"

namespace cria {

static Status without() {
  return Status(CRIA_UNIMPLEMENTED, "this build of libcria knows no batches");
}

Result<std::unique_ptr<Batch>> Batch::create(std::shared_ptr<const Model>,
                                             const BatchOptions &) {
  return without();
}

Result<int64_t> Batch::join(const SequenceOptions &) { return without(); }

Result<int64_t> Batch::fork(int64_t, const SequenceOptions &) {
  return without();
}

Status Batch::leave(int64_t) { return without(); }

Status Batch::feed(int64_t, const int32_t *, int64_t, int64_t) {
  return without();
}

Status Batch::propose(int64_t, const int32_t *, int64_t, const uint32_t *,
                      size_t) {
  return without();
}

Status Batch::step() { return without(); }

Result<const Sequence *> Batch::sequence(int64_t) const { return without(); }

Result<uint64_t> Batch::stateBytes(int64_t) const { return without(); }

Status Batch::save(int64_t, std::byte *) const { return without(); }

Status Batch::restore(int64_t, const std::byte *, uint64_t) {
  return without();
}

} // namespace cria
