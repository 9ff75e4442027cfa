/// The pool of pages of a batch on a CUDA device, and the steps of the batch.
///
/// A step copies its state, ids, positions and tables of pages to the device in
/// one copy, launches the kernels of its entry, and copies its logits back. The
/// host draws from the logits.
#pragma once

#include "runtime/cuda/Runner.h"

#include <memory>
#include <vector>

namespace cria::cuda {

class Paged : public PagedBackend, private Runner {
public:
  /// `model` must outlive it; its artifact must have batches.
  static Result<std::unique_ptr<PagedBackend>> create(const Model &model,
                                                      int64_t pages);

  Status prefill(const PagedStep &step) override;
  Status decode(const PagedStep &step) override;
  Status clearPage(int32_t page) override;
  Status copyPage(int32_t from, int32_t to) override;
  Status readPage(size_t cache, int32_t page, uint64_t begin, std::byte *to,
                  uint64_t bytes) override;
  Status writePage(size_t cache, int32_t page, uint64_t begin,
                   const std::byte *from, uint64_t bytes) override;
  void inParallel(CriaParallelBody body, void *context,
                  int64_t count) override {
    body(context, 0, count);
  }
  Status use(const BoundLoras *loras) override;
  Status trace(std::vector<KernelTime> *into) override {
    return setTrace(into);
  }

private:
  explicit Paged(const Model &model) : Runner(model) {}
  Status allocate(uint64_t pages);
  Status expand();
  Status run(std::vector<Launch> &launches, const PagedStep &step,
             int64_t positions, int64_t pages);
  Status compute(std::vector<Launch> &launches, const PagedStep &step,
                 uint64_t stateBytes);
  /// The address of a page of a cache.
  CUdeviceptr at(size_t cache, int32_t page) const;
  uint64_t pageBytes(size_t cache) const;
  uint64_t positionsOffset() const;
  uint64_t pagesOffset() const;

  std::vector<Launch> prefillLaunches, batchLaunches;
};

} // namespace cria::cuda
