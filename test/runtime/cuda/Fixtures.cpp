#include "test/runtime/cuda/Fixtures.h"

#include "runtime/cuda/Context.h"

#include <cstdlib>
#include <dlfcn.h>

namespace cria::test {

void Environment::set(const std::string &name, const std::string &value) {
  const char *old = getenv(name.c_str());
  before.emplace_back(name, old ? std::make_optional(std::string(old))
                                : std::nullopt);
  setenv(name.c_str(), value.c_str(), 1);
}

Environment::~Environment() {
  for (auto i = before.rbegin(); i != before.rend(); ++i)
    if (i->second)
      setenv(i->first.c_str(), i->second->c_str(), 1);
    else
      unsetenv(i->first.c_str());
}

nlohmann::json cudaManifest() {
  nlohmann::json manifest = fakeManifest();
  manifest["target"]["kind"] = "cpu,cuda";
  manifest["model"].erase("hidden"); // no kernel below makes any
  manifest["caches"][0]["bytes"] = 96;
  manifest["caches"][0]["shape"] = {2, 12};
  auto entry = nlohmann::json::parse(R"([
    {"launch": "clear", "grid": [1, 1, 1], "block": [2, 1, 1], "shared": 0,
     "args": [{"arena": 256}]},
    {"loop": 2, "body": [
      {"launch": "append", "grid": [{"tokens": 2}, 1, 1], "block": [2, 1, 1],
       "shared": 0, "args": [{"state": 0}, {"ids": 0},
                             {"cache": 0, "layer_bytes": 48}]},
      {"launch": "add_norm", "grid": [1, 1, 1], "block": [2, 1, 1],
       "shared": 0, "args": [{"weight": 1, "layered": true},
                             {"arena": 256}]}]},
    {"launch": "logits", "grid": [{"logits": 1}, 1, 1], "block": [5, 1, 1],
     "shared": 64, "args": [{"state": 0}, {"weight": 0}, {"weight": 3},
       {"cache": 0}, {"arena": 256}, {"logits": 0}, {"arena": 0}]}
  ])");
  manifest["cuda"] = {{"images",
                       {{{"chip", "sm_80"},
                         {"format", "ptx"},
                         {"symbol", "fake_ptx"},
                         {"unpacked", 1}}}},
                      {"arena", 512},
                      {"workspace_zeroed", {{"offset", 0}, {"bytes", 256}}},
                      {"entries",
                       {{"prefill", entry},
                        {"decode", entry},
                        {"sample", nlohmann::json::parse(R"([
          {"launch": "pick", "grid": [1, 1, 1], "block": [1, 1, 1],
           "shared": 0, "args": [{"logits": 0}, {"sampled": 0}, {"ids": 0},
                                 {"state": 0}]}])")}}}};
  return manifest;
}

static constexpr char declarations[] = R"({
  .reg .pred %p;
  .reg .b16 %h;
  .reg .b32 %token, %tokens, %position, %first, %id, %end, %v, %row;
  .reg .b64 %a<9>, %offset;
  .reg .f32 %x, %y, %sum;
)";

// bias[v] = 0; one thread each.
static constexpr char clearPtx[] = R"(
.visible .entry clear(.param .u64 bias) DECLARATIONS
  ld.param.u64 %a1, [bias];
  cvta.to.global.u64 %a1, %a1;
  mov.u32 %v, %tid.x;
  mul.wide.u32 %offset, %v, 4;
  add.s64 %a1, %a1, %offset;
  mov.f32 %x, 0f00000000;
  st.global.f32 [%a1], %x;
  ret;
}
)";

// bias[v] += norm[v]; one thread each.
static constexpr char addNormPtx[] = R"(
.visible .entry add_norm(.param .u64 norm, .param .u64 bias) DECLARATIONS
  ld.param.u64 %a1, [norm];
  ld.param.u64 %a2, [bias];
  cvta.to.global.u64 %a1, %a1;
  cvta.to.global.u64 %a2, %a2;
  mov.u32 %v, %tid.x;
  mul.wide.u32 %offset, %v, 2;
  add.s64 %a1, %a1, %offset;
  ld.global.u16 %h, [%a1];
  cvt.u32.u16 %id, %h;
  shl.b32 %id, %id, 16;
  mov.b32 %x, %id;
  mul.wide.u32 %offset, %v, 4;
  add.s64 %a2, %a2, %offset;
  ld.global.f32 %y, [%a2];
  add.f32 %y, %y, %x;
  st.global.f32 [%a2], %y;
  ret;
}
)";

// cache[position + t] = ids[t]; one thread each, and some too many.
static constexpr char appendPtx[] = R"(
.visible .entry append(.param .u64 state, .param .u64 ids, .param .u64 cache)
DECLARATIONS
  ld.param.u64 %a1, [state];
  ld.param.u64 %a2, [ids];
  ld.param.u64 %a3, [cache];
  cvta.to.global.u64 %a1, %a1;
  cvta.to.global.u64 %a2, %a2;
  cvta.to.global.u64 %a3, %a3;
  mov.u32 %token, %ctaid.x;
  mov.u32 %row, %ntid.x;
  mov.u32 %v, %tid.x;
  mad.lo.u32 %token, %token, %row, %v;
  ld.global.v2.u32 {%position, %tokens}, [%a1];
  setp.ge.u32 %p, %token, %tokens;
  @%p bra END;
  mul.wide.u32 %offset, %token, 4;
  add.s64 %a2, %a2, %offset;
  ld.global.u32 %id, [%a2];
  cvt.rn.f32.u32 %x, %id;
  add.u32 %position, %position, %token;
  mul.wide.u32 %offset, %position, 4;
  add.s64 %a3, %a3, %offset;
  st.global.f32 [%a3], %x;
END:
  ret;
}
)";

// The first of the largest of 5 logits, and the next step; one thread.
static constexpr char pickPtx[] = R"(
.visible .entry pick(.param .u64 logits, .param .u64 sampled,
  .param .u64 ids, .param .u64 state) DECLARATIONS
  ld.param.u64 %a1, [logits];
  ld.param.u64 %a2, [sampled];
  ld.param.u64 %a3, [ids];
  ld.param.u64 %a4, [state];
  cvta.to.global.u64 %a1, %a1;
  cvta.to.global.u64 %a2, %a2;
  cvta.to.global.u64 %a3, %a3;
  cvta.to.global.u64 %a4, %a4;
  mov.f32 %x, 0fFF800000;
  mov.u32 %v, 0;
MORE:
  ld.global.f32 %y, [%a1];
  setp.gt.f32 %p, %y, %x;
  @%p mov.f32 %x, %y;
  @%p mov.u32 %id, %v;
  add.s64 %a1, %a1, 4;
  add.u32 %v, %v, 1;
  setp.lt.u32 %p, %v, 5;
  @%p bra MORE;
  ld.global.u32 %position, [%a4];
  and.b32 %v, %position, 1;
  mul.wide.u32 %offset, %v, 16;
  add.s64 %a2, %a2, %offset;
  st.global.u32 [%a2], %id;
  st.global.u32 [%a3], %id;
  add.u32 %position, %position, 1;
  st.global.u32 [%a4], %position;
  ret;
}
)";

// A row of logits a block, a thread for each v. The mean of both layers of the
// cache is the id. The counter, zeroed once, only ever grows.
static constexpr char logitsPtx[] = R"(
.visible .entry logits(.param .u64 state, .param .u64 embed, .param .u64 cosine,
  .param .u64 cache, .param .u64 bias, .param .u64 logits, .param .u64 counter)
DECLARATIONS
  ld.param.u64 %a1, [state];
  ld.param.u64 %a2, [embed];
  ld.param.u64 %a3, [cosine];
  ld.param.u64 %a4, [cache];
  ld.param.u64 %a5, [bias];
  ld.param.u64 %a6, [logits];
  ld.param.u64 %a7, [counter];
  cvta.to.global.u64 %a1, %a1;
  cvta.to.global.u64 %a2, %a2;
  cvta.to.global.u64 %a3, %a3;
  cvta.to.global.u64 %a4, %a4;
  cvta.to.global.u64 %a5, %a5;
  cvta.to.global.u64 %a6, %a6;
  cvta.to.global.u64 %a7, %a7;
  red.global.add.u32 [%a7], 1;
  mov.u32 %row, %ctaid.x;
  mov.u32 %v, %tid.x;
  ld.global.u32 %position, [%a1];
  ld.global.u32 %first, [%a1+8];
  add.u32 %end, %position, %first;
  add.u32 %end, %end, %row;
  mad.lo.u32 %row, %row, 5, %v;
  mul.wide.u32 %offset, %row, 4;
  add.s64 %a6, %a6, %offset;
  and.b32 %v, %v, 1;
  mul.wide.u32 %offset, %v, 4;
  add.s64 %a5, %a5, %offset;
  ld.global.f32 %sum, [%a5];
  mov.u32 %token, 0;
NEXT:
  mul.wide.u32 %offset, %token, 4;
  add.s64 %a8, %a3, %offset;
  ld.global.f32 %x, [%a8];
  add.f32 %sum, %sum, %x;
  add.s64 %a8, %a4, %offset;
  ld.global.f32 %x, [%a8];
  ld.global.f32 %y, [%a8+48];
  add.f32 %x, %x, %y;
  cvt.rzi.u32.f32 %id, %x;
  add.u32 %id, %id, %v;
  mul.wide.u32 %offset, %id, 4;
  add.s64 %a8, %a2, %offset;
  ld.global.f32 %x, [%a8];
  add.f32 %sum, %sum, %x;
  add.u32 %token, %token, 1;
  setp.le.u32 %p, %token, %end;
  @%p bra NEXT;
  st.global.f32 [%a6], %sum;
  ret;
}
)";

std::string cudaPtx() {
  std::string ptx = ".version 7.0\n.target sm_80\n.address_size 64\n";
  for (std::string kernel :
       {clearPtx, addNormPtx, appendPtx, logitsPtx, pickPtx}) {
    size_t at = kernel.find("DECLARATIONS");
    ptx += kernel.replace(at, 12, declarations);
  }
  return ptx;
}

// A frame of zstd without a checksum, of one block that is not compressed.
std::string imageSource(const std::string &name, const std::string &bytes) {
  std::string frame = "\x28\xb5\x2f\xfd\xa0";
  auto put = [&](size_t number, int count) {
    for (int i = 0; i < count; ++i)
      frame += static_cast<char>(number >> 8 * i);
  };
  put(bytes.size(), 4);
  put(bytes.size() << 3 | 1, 3);
  std::string source = "const unsigned char " + name + "[] = {";
  for (unsigned char byte : frame + bytes)
    source += std::to_string(byte) + ",";
  return source + "};";
}

std::string cudaArtifactOf(const nlohmann::json &manifest,
                           const std::string &ptx) {
  nlohmann::json sized = manifest;
  for (nlohmann::json &image : sized["cuda"]["images"])
    image["unpacked"] = ptx.size();
  return artifactOf(sized, imageSource("fake_ptx", ptx));
}

void CudaTest::inject(const std::string &faults) {
  void *library = dlopen(CRIA_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  auto init =
      reinterpret_cast<CUresult (*)(unsigned)>(dlsym(library, "cuInit"));
  for (const std::string &next : {std::string(), faults}) {
    setenv("CRIA_EMULATOR_FAULTS", next.c_str(), 1);
    init(0); // reads the environment again if it has changed
  }
  dlclose(library);
}

void CudaTest::SetUp() {
  usedBefore = usedBytes();
  environment.set("CRIA_EMULATOR_FAULTS", "");
  folder.write("model.safetensors", safetensorsOf(fakeTensors()));
  auto file = open();
  ASSERT_TRUE(file.ok()) << file.status().message();
  artifact = *file;
}

/// Bytes allocated on the emulated device.
uint64_t CudaTest::usedBytes() {
  environment.set("CRIA_CUDA_DRIVER", CRIA_EMULATOR_LIBRARY);
  inject("");
  auto driver = cuda::Driver::open(DeviceKind::Emulated);
  EXPECT_TRUE(driver.ok()) << driver.status().message();
  auto context = cuda::Context::create(*driver, true, 1);
  EXPECT_TRUE(context.ok()) << context.status().message();
  cuda::Current current(**context);
  size_t free = 0, total = 0;
  EXPECT_EQ((**context)->cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return total - free;
}

void CudaTest::TearDown() {
  EXPECT_TRUE(leaks || usedBytes() == usedBefore)
      << usedBytes() << " bytes are used, " << usedBefore << " before";
}

Result<std::shared_ptr<const Artifact>>
CudaTest::open(const nlohmann::json &manifest, const std::string &ptx) {
  return Artifact::openMemory(cudaArtifactOf(manifest, ptx));
}

Result<std::shared_ptr<const Model>> CudaTest::bind(DeviceKind kind) {
  return Model::load(artifact, {folder.path(), 0}, {kind});
}

void CudaTest::expectWorks() {
  inject("");
  auto model = bind();
  ASSERT_TRUE(model.ok()) << model.status().message();
  auto session = Session::create(*model, 0);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> logits(45);
  Status status =
      (*session)->feed(ids.data(), 9, CRIA_LOGITS_ALL, logits.data());
  ASSERT_TRUE(status.ok()) << status.message();
  expectNear(logits, fakeLogits(ids));
}

} // namespace cria::test
