#include "runtime/cuda/Upload.h"

#include "runtime/cpu/Cores.h"
#include "runtime/cpu/Pool.h"

#include <algorithm>
#include <mutex>

namespace cria::cuda {

static constexpr uint64_t stagingBytes = 32 << 20;
static constexpr uint64_t unit = 256; // what a thread takes, at least
static constexpr char copying[] = "copying weights to the device";

namespace {

/// A range of a tensor in a staging buffer.
struct Slice {
  const Upload *upload;
  uint64_t begin, end; // in the tensor
  uint64_t at;         // in the buffer, a multiple of `unit`
};

/// One of the two pinned buffers, and the event after its last copy.
struct Staging {
  PinnedMemory memory;
  Event copied;
  std::vector<Slice> slices;
  uint64_t used = 0;
  bool busy = false;

  std::byte *data() const { return static_cast<std::byte *>(memory.get()); }
};

class Uploader {
public:
  explicit Uploader(const std::shared_ptr<Context> &context)
      : context(context), pool(coreCount()) {}

  Status prepare(uint64_t total);
  Status run(const std::vector<Upload> &uploads);
  Status finish();

private:
  Status add(const Upload &upload);
  Status flush();
  void fill(int64_t from, int64_t to);

  const std::shared_ptr<Context> &context;
  Pool pool;
  Stream stream;
  Staging stagings[2];
  Staging *current = stagings;
  uint64_t capacity = 0;
  std::mutex mutex;
  Status failure; // of the threads that fill
};

} // namespace

Status Uploader::prepare(uint64_t total) {
  capacity = std::min(stagingBytes, (total + unit - 1) / unit * unit);
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
  for (const Upload &upload : uploads) {
    Status status = add(upload);
    if (!status.ok())
      return status;
  }
  return flush();
}

Status Uploader::add(const Upload &upload) {
  for (uint64_t begin = 0; begin < upload.bytes;) {
    if (current->used == capacity)
      if (Status status = flush(); !status.ok())
        return status;
    uint64_t bytes = std::min(upload.bytes - begin, capacity - current->used);
    current->slices.push_back({&upload, begin, begin + bytes, current->used});
    current->used += (bytes + unit - 1) / unit * unit;
    begin += bytes;
  }
  return Status();
}

/// Fills bytes [from, to) of the current buffer, counted in units.
void Uploader::fill(int64_t from, int64_t to) {
  uint64_t first = static_cast<uint64_t>(from) * unit;
  uint64_t last = static_cast<uint64_t>(to) * unit;
  for (const Slice &slice : current->slices) {
    uint64_t begin = std::max(first, slice.at);
    uint64_t end = std::min(last, slice.at + slice.end - slice.begin);
    if (begin >= end)
      continue;
    Status status = slice.upload->fill(current->data() + begin,
                                       slice.begin + (begin - slice.at),
                                       slice.begin + (end - slice.at));
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
           this, static_cast<int64_t>(staging.used / unit));
  Status status = failure;
  for (const Slice &slice : staging.slices) {
    if (!status.ok())
      return status;
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
  current->slices.clear();
  current->used = 0;
  return status;
}

/// Waits for all copies, so that their memory can go.
Status Uploader::finish() {
  if (!stream)
    return Status();
  return context->wait(stream.get(), copying);
}

Status upload(const std::shared_ptr<Context> &context,
              const std::vector<Upload> &uploads) {
  uint64_t total = 0;
  for (const Upload &upload : uploads)
    total += (upload.bytes + unit - 1) / unit * unit;
  if (total == 0)
    return Status();
  Uploader uploader(context);
  Status status = uploader.prepare(total);
  if (status.ok())
    status = uploader.run(uploads);
  Status finished = uploader.finish();
  return status.ok() ? finished : status;
}

} // namespace cria::cuda
