#include "runtime/cuda/Jit.h"
#include "runtime/cuda/Model.h"
#include "tools/bench/Rates.h"

#include <algorithm>
#include <chrono>

namespace cria::bench {

using namespace cria::cuda;
using Clock = std::chrono::steady_clock;

static constexpr unsigned threads = 256, blocksPerProcessor = 8;
/// Measured for so long at least, that launching does not count.
static constexpr double leastSeconds = 0.005;

/// Reads `count` times 16 bytes from `data`, four at a time: what each thread
/// needs in flight. The store never happens.
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

/// Reads `times` vectors while the last of them exists; uses every word, so
/// that no load is made smaller.
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
/// A multiply-add instruction, as a loop over independent ones.
struct Loop {
  std::string name;
  std::string operands; // its registers, declared and set
  std::string step;     // one of them; $ is its number
  int chains;
  double operations; // of a thread in one step
};
} // namespace

static Loop loopFor(DType type) {
  if (type != DType::BF16 && type != DType::F16)
    return {"f32 FMA", "  .reg .f32 %x, %f<16>;\n  mov.f32 %x, 0f3F000000;\n",
            "  fma.rn.f32 %f$, %f$, %x, %x;\n", 16, 2};
  std::string name = type == DType::BF16 ? "bf16" : "f16";
  std::string sum = "{%f$_0, %f$_1, %f$_2, %f$_3}";
  return {"mma.sync " + name, "  .reg .b32 %x;\n  mov.u32 %x, 0;\n",
          "  mma.sync.aligned.m16n8k16.row.col.f32." + name + "." + name +
              ".f32 " + sum + ", {%x, %x, %x, %x}, {%x, %x}, " + sum + ";\n",
          8, 2.0 * 16 * 8 * 16 / 32};
}

/// `rounds` rounds of the chains of `loop`.
static std::string multiplyLoop(const Loop &loop) {
  bool matrix = loop.chains == 8;
  std::string begin, steps, end;
  for (int i = 0; i < loop.chains; ++i) {
    for (int part = 0; part < (matrix ? 4 : 1); ++part) {
      std::string sum =
          "%f" + std::to_string(i) + (matrix ? "_" + std::to_string(part) : "");
      if (matrix)
        begin += "  .reg .f32 " + sum + ";\n";
      begin += "  mov.f32 " + sum + ", 0f00000000;\n";
      end += "  add.f32 %all, %all, " + sum + ";\n";
    }
    steps += numbered(loop.step, i);
  }
  return ".visible .entry multiply(.param .u32 rounds, .param .u64 sink) {\n"
         "  .reg .pred %p;\n  .reg .b32 %n;\n  .reg .b64 %at;\n"
         "  .reg .f32 %all;\n" +
         loop.operands + begin + "  ld.param.u32 %n, [rounds];\nmore:\n" +
         steps +
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
      : context(model.context()), loop(loopFor(type)) {
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
  Status launch(CUfunction function, void **parameters);

  std::shared_ptr<Context> context;
  Loop loop;
  std::vector<Span> spans;
  Status prepared; // nothing is measured unless it is OK
  Module module;
  CUfunction readFunction = nullptr, multiplyFunction = nullptr;
  cuda::Stream stream;
  DeviceMemory sink;
  unsigned blocks = 0;
  uint32_t rounds = 1; // of multiplyLoop; enough for leastSeconds later on
};
} // namespace

/// The weights' memory; neighbours are read as one.
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

/// Loads the loops and makes what they need.
Status CudaRates::prepare() {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  std::string ptx = ".version 7.0\n.target sm_80\n.address_size 64\n" +
                    readLoop() + multiplyLoop(loop);
  std::vector<std::string> warnings; // of the cache, which is not asked
  auto loaded =
      loadModule(context, std::string_view(ptx.c_str(), ptx.size() + 1), true,
                 "the benchmark's loops", false, warnings);
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
  int processors = context->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  blocks = blocksPerProcessor * static_cast<unsigned>(std::max(processors, 1));
  return Status();
}

Status CudaRates::launch(CUfunction function, void **parameters) {
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
        status = launch(readFunction, parameters);
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
  while (status.ok()) {
    void *parameters[] = {&rounds, &to};
    Clock::time_point begin = Clock::now();
    status = launch(multiplyFunction, parameters);
    if (status.ok())
      status = context->wait(stream.get(), "multiplying");
    std::chrono::duration<double> taken = Clock::now() - begin;
    if (status.ok() && taken.count() >= leastSeconds)
      return loop.operations * loop.chains * rounds * blocks * threads /
             taken.count();
    rounds *= 2;
  }
  return status;
}

std::unique_ptr<Rates> cudaRates(const cria::Model &model, DType type) {
  return std::make_unique<CudaRates>(
      static_cast<const cuda::Model &>(model.bound()), type);
}

} // namespace cria::bench
