#include "runtime/cuda/Upload.h"

#include "runtime/base/threads/Cores.h"
#include "runtime/base/threads/Pool.h"

#include <algorithm>
#include <mutex>

namespace cria::cuda {

static constexpr uint64_t stagingBytes = 32 << 20;
static constexpr uint64_t alignment = 256; // in a buffer
static constexpr char copying[] = "copying weights to the device";

static uint64_t aligned(uint64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

namespace {

/// A range of a tensor in a staging buffer.
struct Slice {
  const Upload *upload;
  uint64_t begin, end; // in the tensor
  uint64_t at;         // in the buffer, aligned
  uint64_t first;      // of its units among those of the buffer

  uint64_t units() const {
    return (end - begin + upload->unit - 1) / upload->unit;
  }
};

/// One of the two pinned buffers, and the event after its last copy.
struct Staging {
  PinnedMemory memory;
  Event copied;
  std::vector<Slice> slices;
  uint64_t used = 0, units = 0;
  bool busy = false;

  std::byte *data() const { return static_cast<std::byte *>(memory.get()); }
};

class Uploader {
public:
  Uploader(const std::shared_ptr<Context> &context, const Progress &progress)
      : context(context), progress(progress), pool(coreCount()) {}

  /// Makes buffers for tensors that take `space` bytes in them.
  Status prepare(uint64_t space);
  Status run(const std::vector<Upload> &uploads);
  Status finish();

private:
  Status add(const Upload &upload);
  Status flush();
  void fill(int64_t from, int64_t to);

  const std::shared_ptr<Context> &context;
  const Progress &progress;
  uint64_t done = 0, total = 0; // bytes
  Pool pool;
  Stream stream;
  Staging stagings[2];
  Staging *current = stagings;
  uint64_t capacity = 0;
  std::mutex mutex;
  Status failure; // of the threads that fill
};

} // namespace

Status Uploader::prepare(uint64_t space) {
  capacity = std::min(stagingBytes, space);
  Result<Stream> made = makeStream(context);
  if (!made.ok())
    return made.status();
  stream = std::move(*made);
  for (Staging &staging : stagings) {
    Result<PinnedMemory> memory =
        allocatePinned(context, capacity, "reading weights");
    if (!memory.ok())
      return memory.status();
    staging.memory = std::move(*memory);
    Result<Event> event = makeEvent(context);
    if (!event.ok())
      return event.status();
    staging.copied = std::move(*event);
  }
  return Status();
}

Status Uploader::run(const std::vector<Upload> &uploads) {
  for (const Upload &upload : uploads)
    total += upload.bytes;
  for (const Upload &upload : uploads) {
    Status status = add(upload);
    if (!status.ok())
      return status;
  }
  return flush();
}

Status Uploader::add(const Upload &upload) {
  for (uint64_t begin = 0; begin < upload.bytes;) {
    uint64_t room = capacity - current->used, bytes = upload.bytes - begin;
    if (bytes > room)
      bytes = room / upload.unit * upload.unit;
    if (bytes == 0) {
      if (Status status = flush(); !status.ok())
        return status;
      continue;
    }
    current->slices.push_back(
        {&upload, begin, begin + bytes, current->used, current->units});
    current->units += current->slices.back().units();
    current->used += aligned(bytes);
    begin += bytes;
  }
  return Status();
}

/// Fills the units [from, to) of the current buffer.
void Uploader::fill(int64_t from, int64_t to) {
  for (const Slice &slice : current->slices) {
    uint64_t first = std::max(static_cast<uint64_t>(from), slice.first);
    uint64_t last =
        std::min(static_cast<uint64_t>(to), slice.first + slice.units());
    if (first >= last)
      continue;
    uint64_t unit = slice.upload->unit;
    uint64_t begin = slice.begin + (first - slice.first) * unit;
    uint64_t end =
        std::min(slice.end, slice.begin + (last - slice.first) * unit);
    Status status = slice.upload->fill(
        current->data() + slice.at + (begin - slice.begin), begin, end);
    if (!status.ok()) {
      std::lock_guard<std::mutex> lock(mutex);
      failure = status;
      return;
    }
  }
}

/// Fills the current buffer, has it copied, and turns to the other one.
Status Uploader::flush() {
  Staging &staging = *current;
  pool.run([](void *self, int64_t from,
              int64_t to) { static_cast<Uploader *>(self)->fill(from, to); },
           this, static_cast<int64_t>(staging.units));
  Status status = failure;
  for (const Slice &slice : staging.slices) {
    if (!status.ok())
      return status;
    done += slice.end - slice.begin;
    status = context->check(
        (*context)->cuMemcpyHtoDAsync(slice.upload->to + slice.begin,
                                      staging.data() + slice.at,
                                      slice.end - slice.begin, stream.get()),
        "cuMemcpyHtoDAsync", copying);
  }
  if (status.ok())
    status = context->check(
        (*context)->cuEventRecord(staging.copied.get(), stream.get()),
        "cuEventRecord", copying);
  staging.busy = true;
  current = current == stagings ? stagings + 1 : stagings;
  if (status.ok() && current->busy)
    status = context->wait(current->copied.get(), copying);
  if (progress)
    progress(done, total);
  current->slices.clear();
  current->used = current->units = 0;
  return status;
}

/// Waits for all copies, so that their memory can go.
Status Uploader::finish() {
  if (!stream)
    return Status();
  return context->wait(stream.get(), copying);
}

Status upload(const std::shared_ptr<Context> &context,
              const std::vector<Upload> &uploads, const Progress &progress) {
  uint64_t space = 0;
  for (const Upload &upload : uploads)
    space += aligned(upload.bytes);
  if (space == 0)
    return Status();
  Uploader uploader(context, progress);
  Status status = uploader.prepare(space);
  if (status.ok())
    status = uploader.run(uploads);
  Status finished = uploader.finish();
  return status.ok() ? finished : status;
}

} // namespace cria::cuda
