#include "runtime/cuda/Jit.h"
#include "runtime/cuda/Model.h"
#include "tools/bench/Rates.h"

#include <algorithm>
#include <chrono>

namespace cria::bench {

using namespace cria::cuda;
using Clock = std::chrono::steady_clock;

/// Eight blocks fill a multiprocessor; one block, if each thread has 128 sums.
static constexpr unsigned threads = 256, fullBlocks = 8, wideBlocks = 1;
/// The least duration of a measurement, so that the launch does not count.
static constexpr double leastSeconds = 0.005;

/// Reads `count` times 16 bytes from `data`, four at a time, which is what each
/// thread needs in flight. The store never happens.
static constexpr char readBegin[] = R"(
.visible .entry read(.param .u64 data, .param .u64 count, .param .u64 sink) {
  .reg .pred %p;
  .reg .b32 %a<16>, %s, %t;
  .reg .b64 %at, %i, %n, %step, %far, %last;
  ld.param.u64 %at, [data];
  ld.param.u64 %n, [count];
  mov.u32 %s, %ctaid.x;
  mov.u32 %t, %ntid.x;
  mul.wide.u32 %i, %s, %t;
  mov.u32 %s, %tid.x;
  cvt.u64.u32 %far, %s;
  add.u64 %i, %i, %far; // the thread's number
  mov.u32 %s, %nctaid.x;
  mul.wide.u32 %step, %s, %t;
  mad.lo.u64 %last, %step, 3, %i;
  mad.lo.u64 %at, %i, 16, %at;
  shl.b64 %far, %step, 4;
  mov.u32 %s, 0;
)";
static constexpr char readEnd[] = R"(
  setp.ne.u32 %p, %s, 0x5eed5eed;
  @%p ret;
  ld.param.u64 %at, [sink];
  st.global.u32 [%at], %s;
  ret;
}
)";

/// `text` with every $ replaced by `number`.
static std::string numbered(std::string text, int number) {
  for (size_t at; (at = text.find('$')) != std::string::npos;)
    text.replace(at, 1, std::to_string(number));
  return text;
}

/// Reads `times` vectors as long as the last of them exists. Uses every word,
/// so that the compiler makes no load smaller.
static std::string readWhile(const std::string &label, int times) {
  std::string loads, uses;
  for (int i = 0; i < times; ++i) {
    std::string words;
    for (int word = 4 * i; word < 4 * i + 4; ++word) {
      words += numbered(word % 4 ? ", %a$" : "%a$", word);
      uses += numbered("  xor.b32 %s, %s, %a$;\n", word);
    }
    loads += "  ld.global.nc.v4.u32 {" + words + "}, [%at];\n" +
             "  add.u64 %at, %at, %far;\n";
  }
  return label + ":\n  setp.ge.u64 %p, %last, %n;\n  @%p bra after_" + label +
         ";\n" + loads + uses +
         numbered("  mad.lo.u64 %last, %step, $, %last;\n", times) + "  bra " +
         label + ";\nafter_" + label + ":\n";
}

static std::string readLoop() {
  return readBegin + readWhile("four", 4) +
         "  mul.lo.u64 %i, %step, 3;\n  sub.u64 %last, %last, %i;\n" +
         readWhile("one", 1) + readEnd;
}

namespace {
/// Independent multiply-adds, in a loop.
struct Loop {
  std::string name;
  std::string header; // version and target
  std::string begin;  // registers besides the sums, and instructions before the
                      // loop
  std::string round;
  int sums;          // %f0, %f1, ... in f32
  double operations; // of a thread in one round
  unsigned blocks;   // of each multiprocessor
};
} // namespace

static constexpr char kAmpere[] = ".version 7.0\n.target sm_80\n",
                      kHopper[] = ".version 8.0\n.target sm_90a\n";

/// The registers of `count` sums.
static std::string sumsFrom(int first, int count) {
  std::string names;
  for (int i = first; i < first + count; ++i)
    names += numbered(i > first ? ", %f$" : "%f$", i);
  return "{" + names + "}";
}

/// Fills `%x` with two numbers between 0.5 and 1 of random signs, which differ
/// from thread to thread: matrix units multiply zeros faster than numbers.
static std::string randomPair(const std::string &type) {
  bool isHalf = type == "f16";
  return std::string("  mov.u32 %x, %tid.x;\n"
                     "  mad.lo.u32 %x, %x, 0x9E3779B1, 0x7F4A7C15;\n"
                     "  shr.u32 %n, %x, 15;\n"
                     "  xor.b32 %x, %x, %n;\n"
                     "  mul.lo.u32 %x, %x, 0x85EBCA77;\n") +
         (isHalf ? "  and.b32 %x, %x, 0x83FF83FF;\n"
                   "  or.b32 %x, %x, 0x38003800;\n"
                 : "  and.b32 %x, %x, 0x807F807F;\n"
                   "  or.b32 %x, %x, 0x3F003F00;\n");
}

static Loop floatLoop() {
  std::string round;
  for (int i = 0; i < 16; ++i)
    round += numbered("  fma.rn.f32 %f$, %f$, %x, %x;\n", i);
  return {"f32 FMA", kAmpere, "  .reg .f32 %x;\n  mov.f32 %x, 0f3F000000;\n",
          round,     16,      2 * 16,
          fullBlocks};
}

static Loop warpLoop(const std::string &type) {
  std::string round;
  for (int i = 0; i < 8; ++i) {
    std::string sums = sumsFrom(4 * i, 4);
    round += "  mma.sync.aligned.m16n8k16.row.col.f32." + type + "." + type +
             ".f32 " + sums + ", {%x, %x, %x, %x}, {%x, %x}, " + sums + ";\n";
  }
  return {"mma.sync " + type,
          kAmpere,
          "  .reg .b32 %x;\n" + randomPair(type),
          round,
          32,
          8 * 2.0 * 16 * 8 * 16 / 32,
          fullBlocks};
}

/// Tiles of 64 x 16 and 256 x 16 in shared memory, as matrices of 8 x 8.
/// The next matrix along k is 128 bytes away, the next rows are 256 bytes away.
static Loop warpgroupLoop(const std::string &type) {
  std::string begin = R"(
  .reg .b32 %x, %to;
  .reg .b64 %rows, %columns;
  .shared .align 128 .b8 tiles[12288];
)" + randomPair(type) +
                      R"(
  mov.u32 %to, %tid.x;
  shl.b32 %to, %to, 4;
  mov.u32 %n, tiles;
  add.u32 %to, %to, %n;
  st.shared.v4.b32 [%to], {%x, %x, %x, %x};
  st.shared.v4.b32 [%to+4096], {%x, %x, %x, %x};
  st.shared.v4.b32 [%to+8192], {%x, %x, %x, %x};
  fence.proxy.async;
  bar.sync 0;
  shr.u32 %n, %n, 4;
  cvt.u64.u32 %rows, %n;
  or.b64 %rows, %rows, 0x0000001000080000;
  add.u64 %columns, %rows, 128;
)";
  std::string product = "  wgmma.mma_async.sync.aligned.m64n256k16.f32." +
                        type + "." + type + " " + sumsFrom(0, 128) +
                        ", %rows, %columns, 1, 1, 1, 0, 0;\n";
  std::string round = "  wgmma.fence.sync.aligned;\n";
  for (int i = 0; i < 4; ++i)
    round += product;
  round += "  wgmma.commit_group.sync.aligned;\n"
           "  wgmma.wait_group.sync.aligned 0;\n";
  return {"wgmma " + type, kHopper, begin,
          round,           128,     4 * 2.0 * 64 * 256 * 16 / 128,
          wideBlocks};
}

/// The fastest loop of a device of this compute capability.
static Loop loopFor(DType type, int capability) {
  if (type != DType::BF16 && type != DType::F16)
    return floatLoop();
  std::string name = type == DType::BF16 ? "bf16" : "f16";
  return capability == 90 ? warpgroupLoop(name) : warpLoop(name);
}

static std::string multiplyLoop(const Loop &loop) {
  std::string zeros, end;
  for (int i = 0; i < loop.sums; ++i) {
    zeros += numbered("  mov.f32 %f$, 0f00000000;\n", i);
    end += numbered("  add.f32 %all, %all, %f$;\n", i);
  }
  return ".visible .entry multiply(.param .u32 rounds, .param .u64 sink)\n"
         ".maxntid " +
         std::to_string(threads) +
         ", 1, 1\n{\n  .reg .pred %p;\n  .reg .b32 %n;\n  .reg .b64 %at;\n" +
         numbered("  .reg .f32 %all, %f<$>;\n", loop.sums) + loop.begin +
         zeros + "  ld.param.u32 %n, [rounds];\nmore:\n" + loop.round +
         "  sub.u32 %n, %n, 1;\n  setp.ne.u32 %p, %n, 0;\n  @%p bra more;\n"
         "  mov.f32 %all, 0f00000000;\n" +
         end +
         "  setp.neu.f32 %p, %all, 0f5EED5EED;\n  @%p ret;\n"
         "  ld.param.u64 %at, [sink];\n  st.global.f32 [%at], %all;\n  ret;\n"
         "}\n";
}

namespace {
/// Launches the loops in the model's own context, in a stream of its own.
class CudaRates : public Rates {
public:
  CudaRates(const cuda::Model &model, DType type)
      : context(model.context()), loop(loopFor(type, context->chip())) {
    names = {loop.name};
    findSpans(model);
    prepared = prepare();
  }
  Result<double> read() override;
  Result<double> compute(size_t unit) override;

private:
  struct Span {
    CUdeviceptr data;
    uint64_t bytes;
  };
  void findSpans(const cuda::Model &model);
  Status prepare();
  Status launch(CUfunction function, unsigned blocks, void **parameters);
  unsigned processors() const;

  std::shared_ptr<Context> context;
  Loop loop;
  std::vector<Span> spans;
  Status prepared; // nothing is measured unless it is OK
  Module module;
  CUfunction readFunction = nullptr, multiplyFunction = nullptr;
  cuda::Stream stream;
  DeviceMemory sink;
  uint32_t rounds = 1; // of multiplyLoop; soon enough for leastSeconds
};
} // namespace

/// Finds the weights' memory; adjacent weights are read as one.
void CudaRates::findSpans(const cuda::Model &model) {
  for (const WeightSpec &weight : model.manifest().weights)
    for (uint64_t i = 0;
         i < weight.tensors() && !model.manifest().isShared(weight); ++i)
      spans.push_back({model.slot(weight.slot + i), weight.bytes()});
  std::sort(spans.begin(), spans.end(),
            [](const Span &a, const Span &b) { return a.data < b.data; });
  std::vector<Span> merged;
  for (const Span &span : spans)
    // In one allocation, tensors are at most 256 bytes apart.
    if (!merged.empty() && !context->isFenced() &&
        span.data - (merged.back().data + merged.back().bytes) <= 256)
      merged.back().bytes = span.data + span.bytes - merged.back().data;
    else
      merged.push_back(span);
  spans = std::move(merged);
}

/// Loads the loops and prepares what they need.
Status CudaRates::prepare() {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  std::string ptx =
      loop.header + ".address_size 64\n" + readLoop() + multiplyLoop(loop);
  auto loaded = loadModule(context, ptx, "the benchmark's loops");
  if (!loaded.ok())
    return loaded.status();
  module = std::move(loaded->module);
  for (auto [function, name] : {std::pair(&readFunction, "read"),
                                std::pair(&multiplyFunction, "multiply")})
    if (Status status = context->check(
            (*context)->cuModuleGetFunction(function, module.get(), name),
            "cuModuleGetFunction", name);
        !status.ok())
      return status;
  auto made = makeStream(context);
  if (!made.ok())
    return made.status();
  stream = std::move(*made);
  auto allocated = allocateDevice(context, 4, "the benchmark");
  if (!allocated.ok())
    return allocated.status();
  sink = std::move(*allocated);
  return Status();
}

unsigned CudaRates::processors() const {
  return static_cast<unsigned>(std::max(
      context->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 1));
}

Status CudaRates::launch(CUfunction function, unsigned blocks,
                         void **parameters) {
  return context->check(
      (*context)->cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0,
                                 stream.get(), parameters, nullptr),
      "cuLaunchKernel", "measuring the device");
}

Result<double> CudaRates::read() {
  if (!prepared.ok())
    return prepared;
  Current current(*context);
  Status status = current.status();
  CUdeviceptr to = sink.get();
  double seconds = 0, bytes = 0;
  Clock::time_point begin = Clock::now();
  while (status.ok() && seconds < leastSeconds) {
    for (Span &span : spans) {
      uint64_t count = span.bytes / 16;
      void *parameters[] = {&span.data, &count, &to};
      if (status.ok())
        status = launch(readFunction, fullBlocks * processors(), parameters);
      bytes += static_cast<double>(span.bytes);
    }
    if (status.ok())
      status = context->wait(stream.get(), "reading the weights");
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  if (!status.ok())
    return status;
  return bytes / seconds;
}

Result<double> CudaRates::compute(size_t) {
  if (!prepared.ok())
    return prepared;
  Current current(*context);
  Status status = current.status();
  CUdeviceptr to = sink.get();
  unsigned blocks = loop.blocks * processors();
  while (status.ok()) {
    void *parameters[] = {&rounds, &to};
    Clock::time_point begin = Clock::now();
    status = launch(multiplyFunction, blocks, parameters);
    if (status.ok())
      status = context->wait(stream.get(), "multiplying");
    std::chrono::duration<double> taken = Clock::now() - begin;
    if (status.ok() && taken.count() >= leastSeconds)
      return loop.operations * rounds * blocks * threads / taken.count();
    rounds *= 2;
  }
  return status;
}

std::unique_ptr<Rates> cudaRates(const cria::Model &model, DType type) {
  return std::make_unique<CudaRates>(
      static_cast<const cuda::Model &>(model.bound()), type);
}

/// The lines of a text that are not empty.
static nlohmann::json linesOf(const std::string &text) {
  nlohmann::json lines = nlohmann::json::array();
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    if (end > at)
      lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

Result<nlohmann::json> cudaCode(const cria::Model &model) {
  const auto &bound = static_cast<const cuda::Model &>(model.bound());
  Current current(*bound.context());
  if (!current.status().ok())
    return current.status();
  const Code &code = bound.code();
  auto resources = code.resources();
  if (!resources.ok())
    return resources.status();
  nlohmann::json kernels;
  for (const KernelResources &kernel : *resources)
    kernels.push_back({{"kernel", kernel.kernel},
                       {"registers", kernel.registers},
                       {"local_bytes", kernel.localBytes},
                       {"shared_bytes", kernel.sharedBytes}});
  return nlohmann::json{{"chip", code.loaded().chip},
                        {"format", code.loaded().isPtx ? "ptx" : "cubin"},
                        {"load_seconds", code.seconds()},
                        {"overlap", code.mayOverlap()},
                        {"graphs", code.usesGraphs()},
                        {"compiler_log", linesOf(code.compilerLog())},
                        {"kernels", std::move(kernels)}};
}

} // namespace cria::bench
