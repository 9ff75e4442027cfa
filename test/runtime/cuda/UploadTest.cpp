#include "runtime/cuda/Upload.h"

#include "test/runtime/cuda/Fixtures.h"

#include <cstring>

using namespace cria;
using namespace cria::cuda;
using namespace cria::test;

namespace {

class CudaUploadTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    context = create(/*patience=*/30);
    ASSERT_TRUE(context);
  }
  static std::shared_ptr<Context> create(double patience) {
    auto driver = Driver::open(DeviceKind::Emulated);
    EXPECT_TRUE(driver.ok()) << driver.status().message();
    auto made = Context::create(*driver, true, patience);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? *made : nullptr;
  }
  void TearDown() override {
    context.reset();
    CudaTest::TearDown();
  }
  /// The byte at `index` of tensor `seed`.
  static uint8_t byteAt(uint64_t seed, uint64_t index) {
    return static_cast<uint8_t>((seed + index) * 2654435761u >> 13);
  }
  static Upload pattern(CUdeviceptr to, uint64_t bytes, uint64_t seed,
                        uint64_t unit = 256) {
    return {to, bytes,
            [=](std::byte *data, uint64_t begin, uint64_t end) {
              EXPECT_EQ(begin % unit, 0u);
              EXPECT_TRUE(end % unit == 0 || end == bytes);
              for (uint64_t i = begin; i < end; ++i)
                data[i - begin] = static_cast<std::byte>(byteAt(seed, i));
              return Status();
            },
            unit};
  }

  std::shared_ptr<Context> context;
};

} // namespace

// Tensors of every size beside the buffers': small, odd, larger than both; in
// units of blocks as well.
TEST_F(CudaUploadTest, MovesEveryByte) {
  Current current(*context);
  std::vector<uint64_t> sizes = {1, 255, 256, 0, 257, 70 << 20, 3, 32 << 20};
  std::vector<DeviceMemory> memory;
  std::vector<Upload> uploads;
  for (uint64_t size : sizes) {
    auto allocated = allocateDevice(context, size, "a test");
    ASSERT_TRUE(allocated.ok()) << allocated.status().message();
    uploads.push_back(pattern(allocated->get(), size, uploads.size(),
                              uploads.size() % 2 ? 272 : 256));
    memory.push_back(std::move(*allocated));
  }
  uint64_t last = 0, all = 1;
  Status status = upload(context, uploads, [&](uint64_t done, uint64_t total) {
    EXPECT_LT(last, done);
    last = done;
    all = total;
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(last, all);
  Result<Stream> stream = makeStream(context);
  for (size_t tensor = 0; tensor < sizes.size(); ++tensor) {
    std::vector<uint8_t> found(sizes[tensor]);
    if (found.empty())
      continue;
    ASSERT_EQ((*context)->cuMemcpyDtoHAsync(found.data(), memory[tensor].get(),
                                            found.size(), stream->get()),
              CUDA_SUCCESS);
    ASSERT_TRUE(context->wait(stream->get(), "a test").ok());
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < found.size(); ++i)
      wrong += found[i] != byteAt(tensor, i);
    EXPECT_EQ(wrong, 0u) << "of tensor " << tensor;
  }
}

TEST_F(CudaUploadTest, StopsAtTheFirstError) {
  Current current(*context);
  auto memory = allocateDevice(context, 80 << 20, "a test");
  ASSERT_TRUE(memory.ok());
  std::vector<Upload> uploads = {pattern(memory->get(), 40 << 20, 0)};
  uploads.push_back(
      {memory->get(), 80 << 20, [](std::byte *, uint64_t begin, uint64_t) {
         return begin > (40u << 20) ? Status(CRIA_DATA_LOSS, "the file ends")
                                    : Status();
       }});
  EXPECT_THAT(upload(context, uploads), fails(CRIA_DATA_LOSS, "the file ends"));
  for (const char *fault :
       {"cuMemcpyHtoDAsync:2:1", "cuEventRecord:2:1", "cuEventQuery:1:1",
        "cuStreamCreate:1:2", "cuEventCreate:2:2", "cuMemHostAlloc:2:2"}) {
    inject(fault);
    EXPECT_FALSE(upload(context, {pattern(memory->get(), 80 << 20, 0)}).ok())
        << fault;
  }
}

TEST_F(CudaUploadTest, WaitsNoLongerThanAStepMayTake) {
  leaks = true; // what the copy may still use is never freed
  context = create(/*patience=*/0.2);
  ASSERT_TRUE(context);
  Current current(*context);
  auto memory = allocateDevice(context, 80 << 20, "a test");
  ASSERT_TRUE(memory.ok());
  inject("cuEventQuery:1:600:sticky");
  EXPECT_THAT(upload(context, {pattern(memory->get(), 80 << 20, 0)}),
              fails(CRIA_DEADLINE_EXCEEDED,
                    "the device did not finish copying weights to the device "
                    "within "));
  EXPECT_THAT(context->usable(), fails(CRIA_ABORTED, "copy hangs"));
  inject("");
}

TEST_F(CudaUploadTest, NothingIsNoWork) {
  Current current(*context);
  EXPECT_TRUE(upload(context, {}).ok());
  EXPECT_TRUE(upload(context, {pattern(0, 0, 0)}).ok());
}
