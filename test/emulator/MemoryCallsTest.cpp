// Memory beyond cuMemAlloc: rectangles, managed memory, pools, virtual memory,
// and what an address belongs to.
#include "tools/emulator/driver/Api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

namespace {

constexpr size_t kGranularity = 2 << 20;

class MemoryCalls : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  }
  void TearDown() override {
    cuDevicePrimaryCtxReset_v2(0);
    cuDevicePrimaryCtxRelease_v2(0);
  }

  CUdeviceptr upload(const std::vector<uint8_t> &bytes) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAlloc_v2(&pointer, bytes.size()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoD_v2(pointer, bytes.data(), bytes.size()),
              CUDA_SUCCESS);
    return pointer;
  }

  /// A call that must fail with `error`, and what it writes to stderr.
  template <typename F> std::string failed(F call, CUresult error) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(call(), error);
    return testing::internal::GetCapturedStderr();
  }

  CUcontext context = nullptr;
  CUmemAllocationProp properties = {}; ///< of memory of device 0
};

TEST_F(MemoryCalls, rectangleIsCopiedBetweenPitches) {
  std::vector<uint8_t> from(6 * 4), to(3 * 3, 0);
  std::iota(from.begin(), from.end(), uint8_t(0));
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = upload(from);
  copy.srcPitch = 6;
  copy.srcXInBytes = 2;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to.data();
  copy.dstPitch = 3;
  copy.WidthInBytes = 3;
  copy.Height = 3;
  ASSERT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  EXPECT_THAT(to, testing::ElementsAre(8, 9, 10, 14, 15, 16, 20, 21, 22));
  copy.Height = 4; // beyond the allocation
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("are in no allocation"));
}

TEST_F(MemoryCalls, boxIsCopiedBySlices) {
  std::vector<uint8_t> from(4 * 3 * 2), to(2 * 2 * 2, 0);
  std::iota(from.begin(), from.end(), uint8_t(0));
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = upload(from);
  copy.srcPitch = 4;
  copy.srcHeight = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to.data();
  copy.dstPitch = 2;
  copy.dstHeight = 2;
  copy.WidthInBytes = copy.Height = copy.Depth = 2;
  ASSERT_EQ(cuMemcpy3D_v2(&copy), CUDA_SUCCESS);
  EXPECT_THAT(to, testing::ElementsAre(0, 1, 4, 5, 12, 13, 16, 17));
}

TEST_F(MemoryCalls, fillLeavesWhatIsBetweenRows) {
  CUdeviceptr pointer = upload(std::vector<uint8_t>(8, 1));
  ASSERT_EQ(cuMemsetD2D16_v2(pointer, 4, 0x0203, 1, 2), CUDA_SUCCESS);
  std::vector<uint8_t> bytes(8);
  ASSERT_EQ(cuMemcpyDtoH_v2(bytes.data(), pointer, 8), CUDA_SUCCESS);
  EXPECT_THAT(bytes, testing::ElementsAre(3, 2, 1, 1, 3, 2, 1, 1));
}

TEST_F(MemoryCalls, pitchIsAMultipleOf512) {
  CUdeviceptr pointer;
  size_t pitch;
  ASSERT_EQ(cuMemAllocPitch_v2(&pointer, &pitch, 700, 3, 4), CUDA_SUCCESS);
  EXPECT_EQ(pitch, 1024u);
  size_t bytes;
  ASSERT_EQ(cuMemGetAddressRange_v2(nullptr, &bytes, pointer + 5),
            CUDA_SUCCESS);
  EXPECT_EQ(bytes, 3 * 1024u);
}

TEST_F(MemoryCalls, addressesSayWhatTheyBelongTo) {
  CUdeviceptr device, managed;
  void *pinned;
  int host = 0;
  ASSERT_EQ(cuMemAlloc_v2(&device, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocHost_v2(&pinned, 64), CUDA_SUCCESS);
  unsigned type = 0;
  bool isManaged = false;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void *data[] = {&type, &isManaged};
  auto ask = [&](const void *pointer) {
    EXPECT_EQ(
        cuPointerGetAttributes(2, which, data, CUdeviceptr(uintptr_t(pointer))),
        CUDA_SUCCESS);
    return std::make_pair(type, isManaged);
  };
  using Pair = std::pair<unsigned, bool>;
  EXPECT_EQ(ask(reinterpret_cast<void *>(device + 63)),
            Pair(CU_MEMORYTYPE_DEVICE, false));
  EXPECT_EQ(ask(reinterpret_cast<void *>(managed)),
            Pair(CU_MEMORYTYPE_DEVICE, true));
  EXPECT_EQ(ask(pinned), Pair(CU_MEMORYTYPE_HOST, false));
  EXPECT_EQ(ask(&host), Pair(0, false));
  EXPECT_EQ(
      cuPointerGetAttribute(&type, which[0], CUdeviceptr(uintptr_t(&host))),
      CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryCalls, poolCountsItsMemory) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = 4096;
  CUmemoryPool pool;
  ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
  CUdeviceptr pointer, more;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&pointer, 4000, pool, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&more, 200, pool, nullptr),
            CUDA_ERROR_OUT_OF_MEMORY);
  cuuint64_t used = 0, high = 0;
  ASSERT_EQ(cuMemFreeAsync(pointer, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(
      cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
      CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high),
            CUDA_SUCCESS);
  EXPECT_EQ(used, 0u);
  EXPECT_EQ(high, 4000u);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

// The memory keeps its values while it is mapped elsewhere, as for a vector
// that grows.
TEST_F(MemoryCalls, virtualMemoryIsMappedTwice) {
  CUmemAccessDesc access = {properties.location,
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle first, second;
  ASSERT_EQ(cuMemCreate(&first, kGranularity, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemCreate(&second, kGranularity, &properties, 0), CUDA_SUCCESS);
  CUdeviceptr small, large;
  ASSERT_EQ(cuMemAddressReserve(&small, kGranularity, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(small, kGranularity, 0, first, 0), CUDA_SUCCESS);
  failed([&] { return cuMemsetD8_v2(small, 9, 1); }, // no access yet
         CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemSetAccess(small, kGranularity, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8_v2(small, 9, kGranularity), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(small, kGranularity), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressFree(small, kGranularity), CUDA_SUCCESS);

  ASSERT_EQ(cuMemAddressReserve(&large, 2 * kGranularity, 0, 0, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(large, kGranularity, 0, first, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(large + kGranularity, kGranularity, 0, second, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemSetAccess(large, 2 * kGranularity, &access, 1), CUDA_SUCCESS);
  uint8_t bytes[2];
  ASSERT_EQ(cuMemsetD8_v2(large + kGranularity, 8, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH_v2(bytes, large + kGranularity - 1, 2), CUDA_SUCCESS);
  EXPECT_EQ(bytes[0], 9);
  EXPECT_EQ(bytes[1], 8);
  EXPECT_EQ(cuMemRelease(first), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(second), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(large, 2 * kGranularity), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(large, 2 * kGranularity), CUDA_SUCCESS);
}

TEST_F(MemoryCalls, releasedMemoryStaysMapped) {
  CUmemGenericAllocationHandle memory, again;
  CUdeviceptr pointer;
  ASSERT_EQ(cuMemCreate(&memory, kGranularity, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&pointer, 2 * kGranularity, 0, 0, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(pointer, kGranularity, 0, memory, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(memory), CUDA_SUCCESS);
  using testing::HasSubstr;
  EXPECT_THAT(
      failed([&] { return cuMemRelease(memory); }, CUDA_ERROR_INVALID_HANDLE),
      HasSubstr("was released; only its mappings remain"));
  EXPECT_THAT(failed(
                  [&] {
                    return cuMemMap(pointer + kGranularity, kGranularity, 0,
                                    memory, 0);
                  },
                  CUDA_ERROR_INVALID_HANDLE),
              HasSubstr("was released; only its mappings remain"));
  ASSERT_EQ(cuMemRetainAllocationHandle(&again, (void *)(pointer + 1)),
            CUDA_SUCCESS);
  EXPECT_EQ(again, memory);
  EXPECT_EQ(cuMemUnmap(pointer, kGranularity), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(again), CUDA_SUCCESS);
  EXPECT_THAT(
      failed([&] { return cuMemRelease(again); }, CUDA_ERROR_INVALID_HANDLE),
      HasSubstr("memory of cuMemCreate that was destroyed"));
  EXPECT_EQ(cuMemAddressFree(pointer, 2 * kGranularity), CUDA_SUCCESS);
}

TEST_F(MemoryCalls, accessIsThatOfMappings) {
  CUmemAccessDesc access = {properties.location,
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory;
  CUdeviceptr pointer;
  ASSERT_EQ(cuMemCreate(&memory, kGranularity, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&pointer, 2 * kGranularity, 0, 0, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(pointer, kGranularity, 0, memory, 0), CUDA_SUCCESS);
  EXPECT_THAT(
      failed(
          [&] { return cuMemSetAccess(pointer, 2 * kGranularity, &access, 1); },
          CUDA_ERROR_INVALID_VALUE),
      testing::HasSubstr("are no mappings of cuMemMap"));
  unsigned long long flags = 9;
  ASSERT_EQ(cuMemGetAccess(&flags, &properties.location, pointer + 1),
            CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  ASSERT_EQ(cuMemSetAccess(pointer, kGranularity, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetAccess(&flags, &properties.location, pointer + 1),
            CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(
      cuMemGetAccess(&flags, &properties.location, pointer + kGranularity),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(pointer, kGranularity), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(pointer, 2 * kGranularity), CUDA_SUCCESS);
}

} // namespace
