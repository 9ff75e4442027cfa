// CUDA arrays, texture objects and surface objects.
#include "tools/emulator/driver/Api.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A fetch: the coordinates, the layer first, as floats or integers.
using Words = std::array<uint32_t, 4>;

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

Words floats(float x, float y = 0, float z = 0) {
  return {bitsOf(x), bitsOf(y), bitsOf(z), 0};
}

class Textures : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&words, sizeof(Words)), CUDA_SUCCESS);
  }
  void TearDown() override {
    cuDevicePrimaryCtxReset_v2(0);
    cuDevicePrimaryCtxRelease_v2(0);
  }

  /// An array of texels of `format` with these bytes.
  template <typename T>
  CUarray array(CUDA_ARRAY3D_DESCRIPTOR shape, const std::vector<T> &texels) {
    CUarray made = nullptr;
    EXPECT_EQ(cuArray3DCreate_v2(&made, &shape), CUDA_SUCCESS);
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = texels.data();
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = made;
    copy.WidthInBytes = shape.Width * shape.NumChannels * sizeof(T);
    copy.Height = std::max<size_t>(shape.Height, 1);
    copy.Depth = std::max<size_t>(shape.Depth, 1);
    EXPECT_EQ(cuMemcpy3D_v2(&copy), CUDA_SUCCESS);
    return made;
  }

  static CUDA_RESOURCE_DESC imageOf(CUarray from) {
    CUDA_RESOURCE_DESC image = {};
    image.resType = CU_RESOURCE_TYPE_ARRAY;
    image.res.array.hArray = from;
    return image;
  }

  CUtexObject texture(const CUDA_RESOURCE_DESC &image,
                      CUDA_TEXTURE_DESC how = {}) {
    CUtexObject object = 0;
    EXPECT_EQ(cuTexObjectCreate(&object, &image, &how, nullptr), CUDA_SUCCESS);
    return object;
  }

  /// What one thread gets that executes `code`. Words 0 to 3 are in %c0 ...,
  /// and the result is in %r0 ...
  Words run(unsigned long long object, const std::string &code, Words in) {
    std::string ptx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 object, .param .u64 words)
{
  .reg .b64 %o, %w;
  .reg .b32 %c<4>, %r<4>;
  ld.param.u64 %o, [object];
  ld.param.u64 %w, [words];
  ld.global.v4.b32 {%c0, %c1, %c2, %c3}, [%w];
)" + code + R"(
  st.global.v4.b32 [%w], {%r0, %r1, %r2, %r3};
  ret;
}
)";
    CUmodule module;
    CUfunction kernel;
    void *arguments[] = {&object, &words};
    EXPECT_EQ(cuMemcpyHtoD_v2(words, in.data(), sizeof in), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleLoadData(&module, ptx.c_str()), CUDA_SUCCESS) << code;
    EXPECT_EQ(cuModuleGetFunction(&kernel, module, "k"), CUDA_SUCCESS) << code;
    EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments,
                             nullptr),
              CUDA_SUCCESS);
    Words out = {};
    result = cuMemcpyDtoH_v2(out.data(), words, sizeof out);
    return out;
  }

  Words fetch(unsigned long long object, const std::string &form,
              const std::string &coordinates, Words in) {
    return run(object,
               "tex." + form + " {%r0, %r1, %r2, %r3}, [%o, {" + coordinates +
                   "}];",
               in);
  }

  float fetch1(CUtexObject object, float x) {
    return floatOf(fetch(object, "1d.v4.f32.f32", "%c0", floats(x))[0]);
  }
  float fetch2(CUtexObject object, float x, float y) {
    return floatOf(fetch(object, "2d.v4.f32.f32", "%c0, %c1", floats(x, y))[0]);
  }

  CUcontext context = nullptr;
  CUdeviceptr words = 0;
  CUresult result = CUDA_SUCCESS; ///< of the last launch
};

TEST_F(Textures, modesSayWhatIsOutside) {
  auto image = imageOf(
      array<float>({4, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0}, {10, 20, 30, 40}));
  CUDA_TEXTURE_DESC how = {};
  how.flags = CU_TRSF_NORMALIZED_COORDINATES;
  how.borderColor[0] = 5;
  // wrap, clamp, mirror, border, at -0.3, 0.3 and 1.1
  float expected[4][3] = {{30, 20, 10}, {10, 20, 40}, {20, 20, 40}, {5, 20, 5}};
  for (int mode = 0; mode < 4; ++mode) {
    how.addressMode[0] = mode;
    CUtexObject object = texture(image, how);
    EXPECT_THAT(
        (std::array<float, 3>{fetch1(object, -0.3f), fetch1(object, 0.3f),
                              fetch1(object, 1.1f)}),
        testing::ElementsAreArray(expected[mode]))
        << mode;
  }
  how.flags = 0; // coordinates in texels are not repeated
  how.addressMode[0] = 0;
  EXPECT_EQ(fetch1(texture(image, how), 5.5f), 40);
}

TEST_F(Textures, linearFilterMeansNeighbours) {
  auto image =
      imageOf(array<float>({2, 2, 0, CU_AD_FORMAT_FLOAT, 1, 0}, {0, 1, 2, 3}));
  CUDA_TEXTURE_DESC how = {};
  std::fill_n(how.addressMode, 3, 1); // clamp
  how.filterMode = 1;
  CUtexObject object = texture(image, how);
  EXPECT_EQ(fetch2(object, 1, 1), 1.5f);
  EXPECT_EQ(fetch2(object, 0.75f, 1), 1.25f);
  EXPECT_EQ(fetch2(object, 0.501f, 0.5f), 0); // weights have 8 bits
  EXPECT_EQ(fetch2(object, -3, 9), 2);
  auto solid = imageOf(array<float>({2, 2, 2, CU_AD_FORMAT_FLOAT, 1, 0},
                                    {0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(floatOf(fetch(texture(solid, how), "3d.v4.f32.f32",
                          "%c0, %c1, %c2, %c2", floats(1, 1, 1))[0]),
            3.5f);
}

TEST_F(Textures, integersAreNormalizedUnlessTheyStay) {
  auto bytes = imageOf(array<uint8_t>(
      {1, 1, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0}, {255, 0, 51, 1}));
  Words in = floats(0, 0);
  Words parts = fetch(texture(bytes), "2d.v4.f32.f32", "%c0, %c1", in);
  EXPECT_EQ(floatOf(parts[0]), 1);
  EXPECT_EQ(floatOf(parts[2]), 0.2f);
  CUDA_TEXTURE_DESC how = {};
  how.flags = CU_TRSF_READ_AS_INTEGER;
  EXPECT_THAT(fetch(texture(bytes, how), "2d.v4.u32.f32", "%c0, %c1", in),
              ElementsAre(255, 0, 51, 1));
  auto words = imageOf(
      array<int16_t>({2, 1, 0, CU_AD_FORMAT_SIGNED_INT16, 1, 0}, {-32768, -5}));
  EXPECT_EQ(floatOf(fetch(texture(words), "2d.v4.f32.f32", "%c0, %c1", in)[0]),
            -1);
  EXPECT_EQ(int32_t(fetch(texture(words, how), "2d.v4.s32.f32", "%c0, %c1",
                          floats(1))[0]),
            -5);
  auto halves =
      imageOf(array<uint16_t>({1, 0, 0, CU_AD_FORMAT_HALF, 1, 0}, {0x3e00}));
  EXPECT_EQ(fetch1(texture(halves), 0), 1.5f);
}

TEST_F(Textures, linearMemoryIsReadByIndex) {
  CUdeviceptr memory;
  std::vector<int> values = {7, 8, 9};
  ASSERT_EQ(cuMemAlloc_v2(&memory, 12), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory, values.data(), 12), CUDA_SUCCESS);
  CUDA_RESOURCE_DESC image = {};
  image.resType = CU_RESOURCE_TYPE_LINEAR;
  image.res.linear = {memory, CU_AD_FORMAT_SIGNED_INT32, 1, 12};
  CUtexObject object = texture(image);
  auto at = [&](uint32_t index) {
    return fetch(object, "1d.v4.s32.s32", "%c0", {index})[0];
  };
  EXPECT_EQ(at(2), 9u);
  EXPECT_EQ(at(3), 0u);
  EXPECT_EQ(at(~0u), 0u);
  ASSERT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  at(0);
  EXPECT_EQ(result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("use after free: the image of a texture"));
}

TEST_F(Textures, layersAndFacesAreChosen) {
  auto layers = imageOf(
      array<float>({2, 1, 3, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED},
                   {0, 1, 10, 11, 20, 21}));
  Words in = {1, bitsOf(1.5f), bitsOf(0.5f)};
  EXPECT_EQ(floatOf(fetch(texture(layers), "a2d.v4.f32.f32",
                          "%c0, %c1, %c2, %c2", in)[0]),
            11);
  auto cube = imageOf(
      array<float>({1, 1, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP},
                   {0, 1, 2, 3, 4, 5}));
  CUtexObject object = texture(cube);
  Words directions[] = {floats(1),     floats(-1),      floats(0, 1),
                        floats(0, -1), floats(0, 0, 1), floats(0, 0, -1)};
  for (int face = 0; face < 6; ++face)
    EXPECT_EQ(floatOf(fetch(object, "cube.v4.f32.f32", "%c0, %c1, %c2, %c2",
                            directions[face])[0]),
              face);
}

TEST_F(Textures, surfacesAreWrittenAndRead) {
  CUarray pixels = array<uint32_t>(
      {2, 2, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST},
      {1, 2, 3, 4});
  CUDA_RESOURCE_DESC image = imageOf(pixels);
  CUsurfObject object;
  ASSERT_EQ(cuSurfObjectCreate(&object, &image), CUDA_SUCCESS);
  run(object, "sust.b.2d.b32.trap [%o, {%c0, %c1}], {%c2};", {4, 1, 9});
  std::vector<uint32_t> row(2);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = pixels;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = row.data();
  copy.WidthInBytes = 8;
  copy.Height = 1;
  ASSERT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  EXPECT_THAT(row, ElementsAre(3, 9));
  std::string both = "suld.b.2d.v2.b32.zero {%r0, %r1}, [%o, {%c0, %c1}];";
  EXPECT_EQ(run(object, both, {0, 1})[1], 9u);
  EXPECT_EQ(run(object, both, {0, 2})[1], 0u);
  std::string clamped = "suld.b.2d.b32.clamp {%r0}, [%o, {%c0, %c1}];";
  EXPECT_EQ(run(object, clamped, {100, ~0u})[0], 2u);
  testing::internal::CaptureStderr();
  run(object, "sust.b.2d.b32.trap [%o, {%c0, %c1}], {%c2};", {8, 1, 9});
  EXPECT_EQ(result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("coordinate 0 of a surface is 8, the last is 4"));
}

TEST_F(Textures, wrongUsesAreReported) {
  CUarray made = array<float>({1, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0}, {1});
  CUtexObject object = texture(imageOf(made));
  ASSERT_EQ(cuTexObjectDestroy(object), CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuTexObjectDestroy(object), CUDA_ERROR_INVALID_VALUE);
  CUDA_RESOURCE_DESC image = imageOf(made);
  image.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  CUDA_TEXTURE_DESC how = {};
  EXPECT_EQ(cuTexObjectCreate(&object, &image, &how, nullptr),
            CUDA_ERROR_NOT_SUPPORTED);
  float value = 0;
  EXPECT_EQ(cuMemcpyAtoH_v2(&value, made, 0, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(cuMemcpyAtoH_v2(&value, made, 4, 4), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuArrayDestroy(made), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayDestroy(made), CUDA_ERROR_INVALID_HANDLE);
  fetch1(object, 0);
  EXPECT_NE(result, CUDA_SUCCESS);
  std::string said = testing::internal::GetCapturedStderr();
  for (const char *what :
       {"is no texture object", "mipmapped arrays are not emulated",
        "the copy does not lie in the array", "an array that was destroyed"})
    EXPECT_THAT(said, HasSubstr(what));
}

TEST_F(Textures, imagesHaveSizesThatGpusHave) {
  CUarray array = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR shape = {1u << 20,           1u << 20, 1u << 20,
                                   CU_AD_FORMAT_FLOAT, 4,        0};
  EXPECT_EQ(cuArray3DCreate_v2(&array, &shape), CUDA_ERROR_INVALID_VALUE);
  CUtexObject object = 0;
  CUDA_TEXTURE_DESC how = {};
  CUDA_RESOURCE_DESC image = {};
  image.resType = CU_RESOURCE_TYPE_LINEAR;
  image.res.linear = {words, CU_AD_FORMAT_UNSIGNED_INT8, 1, size_t(1) << 33};
  EXPECT_EQ(cuTexObjectCreate(&object, &image, &how, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  image.resType = CU_RESOURCE_TYPE_PITCH2D;
  image.res.pitch2D = {words, CU_AD_FORMAT_UNSIGNED_INT8, 1, 4, 0, 4};
  EXPECT_EQ(cuTexObjectCreate(&object, &image, &how, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  image.res.pitch2D.height = (size_t(1) << 32) + 1;
  EXPECT_EQ(cuTexObjectCreate(&object, &image, &how, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

} // namespace
