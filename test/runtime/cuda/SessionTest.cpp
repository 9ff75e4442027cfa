#include "runtime/cuda/Model.h"
#include "runtime/device/Sampler.h"
#include "test/runtime/cuda/Fixtures.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

using namespace cria;
using namespace cria::test;
using testing::HasSubstr;

namespace {

class CudaSessionTest : public CudaTest {
protected:
  void TearDown() override {
    model.reset();
    CudaTest::TearDown();
  }
  void SetUp() override {
    CudaTest::SetUp();
    load();
  }
  void load() {
    auto bound = bind();
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    model = *bound;
  }
  std::unique_ptr<Session> session() {
    auto made = Session::create(model, 0);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }

  std::shared_ptr<const Model> model;
};

} // namespace

TEST_F(CudaSessionTest, ChunksWholePromptsAndSingleStepsAgree) {
  std::vector<float> whole(45), steps(45), last(5);
  ASSERT_TRUE(
      session()->feed(ids.data(), 9, CRIA_LOGITS_ALL, whole.data()).ok());
  expectNear(whole, fakeLogits(ids));
  auto stepwise = session();
  for (size_t i = 0; i < ids.size(); ++i)
    ASSERT_TRUE(
        stepwise->feed(&ids[i], 1, CRIA_LOGITS_LAST, &steps[i * 5]).ok());
  EXPECT_EQ(steps, whole);
  ASSERT_TRUE(
      session()->feed(ids.data(), 8, CRIA_LOGITS_LAST, last.data()).ok());
  EXPECT_EQ(last, std::vector<float>(whole.begin() + 35, whole.begin() + 40));
}

TEST_F(CudaSessionTest, FeedsWithoutLogits) {
  auto quiet = session();
  ASSERT_TRUE(quiet->feed(ids.data(), 1, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_TRUE(quiet->feed(&ids[1], 7, CRIA_LOGITS_NONE, nullptr).ok());
  std::vector<float> last(5), all = fakeLogits(ids);
  ASSERT_TRUE(quiet->feed(&ids[8], 1, CRIA_LOGITS_ALL, last.data()).ok());
  expectNear(last, {all.begin() + 40, all.end()});
  EXPECT_EQ(quiet->position(), 9);
}

TEST_F(CudaSessionTest, LogitsOfAllAndOfOneMayTakeTurns) {
  auto used = session();
  std::vector<float> rows(15), all = fakeLogits(ids);
  ASSERT_TRUE(used->feed(ids.data(), 3, CRIA_LOGITS_ALL, rows.data()).ok());
  expectNear(rows, {all.begin(), all.begin() + 15});
  ASSERT_TRUE(used->feed(&ids[3], 2, CRIA_LOGITS_LAST, rows.data()).ok());
  EXPECT_NEAR(rows[0], all[20], 1e-4);
  rows.resize(10);
  ASSERT_TRUE(used->feed(&ids[5], 2, CRIA_LOGITS_ALL, rows.data()).ok());
  expectNear(rows, {all.begin() + 25, all.begin() + 35});
}

TEST_F(CudaSessionTest, TakesEmbeddingsInPlaceOfIds) {
  auto fed = session();
  std::vector<float> rows(18, 0.5f), logits(15);
  ASSERT_TRUE(fed->feedEmbeddings(rows.data(), 9, 2).ok());
  EXPECT_EQ(fed->position(), 9);
  // The table is the model's again.
  ASSERT_TRUE(fed->rewind(0).ok());
  ASSERT_TRUE(fed->feed(ids.data(), 3, CRIA_LOGITS_ALL, logits.data()).ok());
  expectNear(logits, fakeLogits({ids.begin(), ids.begin() + 3}));
}

TEST_F(CudaSessionTest, RewindsAndReplaysTheSameGraph) {
  auto used = session();
  std::vector<float> logits(5);
  ASSERT_TRUE(used->feed(ids.data(), 9, CRIA_LOGITS_LAST, logits.data()).ok());
  for (int64_t position : {8, 3, 0}) {
    ASSERT_TRUE(used->rewind(position).ok());
    std::vector<int32_t> text(ids.begin(), ids.begin() + position + 1);
    ASSERT_TRUE(
        used->feed(&text.back(), 1, CRIA_LOGITS_LAST, logits.data()).ok());
    std::vector<float> all = fakeLogits(text);
    expectNear(logits, {all.end() - 5, all.end()});
  }
}

// The first decode step records 6 launches; later ones must launch no kernel.
TEST_F(CudaSessionTest, DecodesByReplayingAGraph) {
  inject("cuLaunchKernelEx:7:719");
  load();
  auto replaying = session();
  std::vector<float> logits(5);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(
        replaying->feed(&ids[i], 1, CRIA_LOGITS_LAST, logits.data()).ok());
  inject("cuGraphLaunch:2:719");
  load();
  auto failing = session();
  ASSERT_TRUE(failing->feed(&ids[0], 1, CRIA_LOGITS_LAST, logits.data()).ok());
  EXPECT_THAT(failing->feed(&ids[1], 1, CRIA_LOGITS_LAST, logits.data()),
              fails(CRIA_ABORTED, "cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED "
                                  "while launching a decode step"));
  EXPECT_EQ(failing->position(), 1);
}

namespace {
/// Code for sm_90 whose kernels wait for the launch before, but for `hasty`.
class CudaOverlapTest : public CudaSessionTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    environment.set("CRIA_EMULATOR_DEVICE", "sm_90");
  }
  void loadDependent(const std::string &hasty = "") {
    nlohmann::json manifest = cudaManifest();
    manifest["cuda"]["images"][0]["chip"] = "sm_90";
    manifest["cuda"]["images"][0]["dependent"] = true;
    std::string ptx = cudaPtx();
    ptx.replace(ptx.find("7.0"), 3, "8.0");
    ptx.replace(ptx.find("sm_80"), 5, "sm_90");
    static constexpr std::string_view entry = ".entry ", begin = "%sum;\n";
    for (size_t at = 0; (at = ptx.find(entry, at)) != std::string::npos; ++at)
      if (hasty.empty() || ptx.compare(at + entry.size(), hasty.size(), hasty))
        ptx.insert(ptx.find(begin, at) + begin.size(),
                   "  griddepcontrol.launch_dependents;\n"
                   "  griddepcontrol.wait;\n");
    auto opened = open(manifest, ptx);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
    load();
  }
  /// Draws an id, by a prompt and by a decode step.
  Status drawTwice() {
    auto sampler = Sampler::create(SamplerOptions(), 5);
    auto drawing = session();
    for (auto [at, count] : {std::pair(0, 4), std::pair(4, 1)}) {
      auto id = drawing->draw(&ids[at], count, *sampler);
      if (!id.ok())
        return id.status();
      std::vector<float> all =
          fakeLogits({ids.begin(), ids.begin() + at + count});
      EXPECT_EQ(*id,
                std::max_element(all.end() - 5, all.end()) - all.end() + 5);
    }
    return Status();
  }
};
} // namespace

TEST_F(CudaOverlapTest, LaunchesBeginBeforeTheLaunchBeforeHasEnded) {
  loadDependent();
  EXPECT_TRUE(drawTwice().ok());
  // All launches overlap the one before, the first of `sample` too.
  for (const char *hasty : {"add_norm", "logits", "pick"}) {
    loadDependent(hasty);
    EXPECT_THAT(drawTwice(), fails(CRIA_ABORTED, "CUDA_ERROR_LAUNCH_FAILED"));
  }
  // Before the first are copies: it does not overlap.
  loadDependent("clear");
  EXPECT_TRUE(drawTwice().ok());
}

TEST_F(CudaOverlapTest, LaunchesStayApartWhereGraphsDoNotRecordWhatOverlaps) {
  environment.set("CRIA_EMULATOR_DRIVER_VERSION", "12020");
  loadDependent("pick");
  EXPECT_TRUE(drawTwice().ok());
}

TEST_F(CudaOverlapTest, LaunchesStayApartWhereTheEnvironmentSaysSo) {
  environment.set("CRIA_CUDA_WITHOUT", "overlap");
  loadDependent("pick");
  EXPECT_TRUE(drawTwice().ok());
}

// Kernels write the id to the host's memory, and read which were seen there.
TEST_F(CudaSessionTest, DrawsWithoutACopyBack) {
  inject("cuMemcpyDtoHAsync:1:719");
  load();
  SamplerOptions options;
  options.repetitionPenalty = 1.5;
  auto sampler = Sampler::create(options, 5);
  ASSERT_TRUE(sampler.ok());
  sampler->accept(4, /*drawn=*/true);
  auto drawing = session();
  for (size_t i = 0; i < ids.size(); ++i) {
    Result<int32_t> id = drawing->draw(&ids[i], 1, *sampler);
    ASSERT_TRUE(id.ok()) << id.status().message();
    std::vector<float> all = fakeLogits({ids.begin(), ids.begin() + i + 1});
    EXPECT_EQ(*id, std::max_element(all.end() - 5, all.end()) - all.end() + 5);
  }
}

// A step that fails takes no random number.
TEST_F(CudaSessionTest, ADrawThatFailedMayBeRepeated) {
  auto drawn = [&](const std::string &faults) {
    inject(faults);
    load();
    SamplerOptions options;
    options.temperature = 40;
    options.seed = 3;
    auto sampler = Sampler::create(options, 5);
    auto drawing = session();
    std::vector<int32_t> all;
    int failures = 0;
    while (all.size() < ids.size() && failures < 2) {
      Result<int32_t> id = drawing->draw(&ids[all.size()], 1, *sampler);
      if (id.ok())
        all.push_back(*id);
      failures += !id.ok();
    }
    EXPECT_EQ(failures, faults.empty() ? 0 : 1);
    return all;
  };
  EXPECT_EQ(drawn("cuGraphLaunch:3:2"), drawn(""));
}

namespace {
/// Texts that a caller generates: each id that is drawn is fed next. So that
/// ids depend on the text, the largest logit, rounded down, modulo 5 is drawn.
class CudaAheadTest : public CudaSessionTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    std::string ptx = cudaPtx();
    ptx.insert(ptx.find("ld.global.u32 %position, [%a4];"),
               "cvt.rzi.u32.f32 %v, %x;\n  rem.u32 %id, %v, 5;\n  ");
    auto opened = open(cudaManifest(), ptx);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
    load();
  }
  void TearDown() override {
    drawing.reset();
    CudaSessionTest::TearDown();
  }
  /// The ids of a text of `count` ids that begins with some.
  static std::vector<int32_t> expected(std::vector<int32_t> text,
                                       size_t count) {
    while (text.size() < count) {
      std::vector<float> all = fakeLogits(text);
      text.push_back(
          static_cast<int32_t>(*std::max_element(all.end() - 5, all.end())) %
          5);
    }
    return text;
  }
  /// Begins a text, whose next id is drawn already.
  void begin() {
    drawing = session();
    text.assign(ids.begin(), ids.begin() + 4);
    auto id = drawing->draw(text.data(), 4, *sampler);
    ASSERT_TRUE(id.ok()) << id.status().message();
    text.push_back(*id);
  }
  /// Feeds the last id.
  Status draw() {
    auto id = drawing->draw(&text.back(), 1, *sampler);
    if (id.ok())
      text.push_back(*id);
    return id.status();
  }
  /// The id at a position of the cache.
  float cached(size_t position) {
    float cache[24];
    EXPECT_TRUE(
        drawing->readCache(0, reinterpret_cast<std::byte *>(cache)).ok());
    return cache[position];
  }

  Result<Sampler> sampler = Sampler::create(SamplerOptions(), 5);
  std::unique_ptr<Session> drawing;
  std::vector<int32_t> text;
};
} // namespace

// The emulated driver runs what is launched at once. So the id of the step is
// in the cache although the host did not read it.
TEST_F(CudaAheadTest, LaunchesTheNextStepBeforeTheIdIsRead) {
  begin();
  inject("cuEventQuery:1:2");
  EXPECT_THAT(draw(), fails(CRIA_RESOURCE_EXHAUSTED, "cuEventQuery"));
  EXPECT_EQ(drawing->position(), 4);
  std::vector<int32_t> whole = expected(text, 12);
  EXPECT_EQ(cached(4), whole[4]);
  EXPECT_EQ(cached(5), whole[5]);
  while (text.size() < 12)
    ASSERT_TRUE(draw().ok());
  EXPECT_EQ(text, whole);
}

// Two graphs for the first step, and then one for each but the last.
TEST_F(CudaAheadTest, LaunchesEachStepOnce) {
  begin();
  inject("cuGraphLaunch:9:2");
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(draw().ok());
  EXPECT_EQ(text, expected(text, 13));
  EXPECT_THAT(draw(), fails(CRIA_OUT_OF_RANGE, "1 ids at position 12"));
  environment.set("CRIA_CUDA_WITHOUT", "ahead");
  load();
  begin();
  inject("cuEventRecord:1:719");
  while (text.size() < 13)
    ASSERT_TRUE(draw().ok());
  EXPECT_EQ(text, expected(text, 13));
}

TEST_F(CudaAheadTest, ACallOfAnotherStepFindsNoTraceOfTheOneLaunched) {
  begin();
  ASSERT_TRUE(draw().ok());
  for (int32_t other : {2, 0}) { // ids that were not drawn
    text.back() = other;
    ASSERT_TRUE(draw().ok());
    ASSERT_TRUE(draw().ok());
    EXPECT_EQ(text, expected(text, text.size()));
  }
  // The id that was drawn, at an earlier position.
  ASSERT_TRUE(drawing->rewind(3).ok());
  text[3] = text.back();
  text.resize(4);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(draw().ok());
  EXPECT_EQ(text, expected({text.begin(), text.begin() + 4}, 7));
  ASSERT_TRUE(drawing->rewind(5).ok());
  text.resize(6);
  std::vector<float> logits(5);
  ASSERT_TRUE(drawing->feed(&text[5], 1, CRIA_LOGITS_LAST, logits.data()).ok());
  std::vector<float> all = fakeLogits(text);
  expectNear(logits, {all.end() - 5, all.end()});
  // The cache now holds another text, which the same id follows.
  text.push_back(expected(text, 7).back());
  ASSERT_TRUE(draw().ok());
  ASSERT_TRUE(draw().ok());
  std::vector<int32_t> others = {2, 2, 2, 2, 2, 2, 2};
  ASSERT_EQ(drawing->position(), 8);
  others.insert(others.end(), text.end() - 2, text.end());
  auto other = session();
  ASSERT_TRUE(other->feed(others.data(), 8, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_TRUE(drawing->copy(*other).ok());
  text = others;
  ASSERT_TRUE(draw().ok());
  EXPECT_EQ(text, expected(others, 10));
}

TEST_F(CudaAheadTest, TimedStepsAreNotLaunchedAhead) {
  begin();
  ASSERT_TRUE(draw().ok());
  std::vector<KernelTime> times;
  ASSERT_TRUE(drawing->trace(&times).ok());
  for (size_t launches : {7, 14}) {
    ASSERT_TRUE(draw().ok());
    EXPECT_EQ(times.size(), launches);
  }
  ASSERT_TRUE(drawing->trace(nullptr).ok());
  ASSERT_TRUE(draw().ok());
  EXPECT_EQ(text, expected(text, 9));
}

TEST_F(CudaAheadTest, AFailureIsThatOfTheCallThatAsksForTheStep) {
  const char *error = "cuGraphLaunch: CUDA_ERROR_OUT_OF_MEMORY while launching "
                      "a decode step";
  begin();
  inject("cuGraphLaunch:2:2");
  ASSERT_TRUE(draw().ok());
  EXPECT_THAT(draw(), fails(CRIA_RESOURCE_EXHAUSTED, error));
  EXPECT_EQ(drawing->position(), 5);
  while (text.size() < 12)
    ASSERT_TRUE(draw().ok());
  EXPECT_EQ(text, expected(text, 12));
  // Nobody asks for it.
  begin();
  inject("cuGraphLaunch:2:2");
  ASSERT_TRUE(draw().ok());
  text.back() = 2;
  while (text.size() < 12)
    ASSERT_TRUE(draw().ok());
  EXPECT_EQ(text, expected(text, 12));
  // It ends the context.
  begin();
  inject("cuGraphLaunch:2:719");
  ASSERT_TRUE(draw().ok());
  EXPECT_THAT(draw(),
              fails(CRIA_ABORTED, "cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED "
                                  "while launching a decode step"));
  EXPECT_THAT(draw(), fails(CRIA_ABORTED, "context has ended"));
}

// Whichever call fails: the ids are right once it is called again.
TEST_F(CudaAheadTest, GoesOnAfterAnyFailure) {
  for (const char *call :
       {"cuCtxPushCurrent", "cuMemcpyHtoDAsync", "cuLaunchKernelEx",
        "cuStreamBeginCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
        "cuEventRecord", "cuEventQuery", "cuStreamQuery"})
    for (int number = 1; number <= 8; ++number) {
      begin();
      inject(std::string(call) + ":" + std::to_string(number) + ":2");
      int failures = 0;
      while (text.size() < 12 && failures < 2)
        failures += !draw().ok();
      EXPECT_EQ(text, expected(text, 12)) << call << " " << number;
      inject("");
    }
}

TEST_F(CudaSessionTest, StopsWhereCancelled) {
  auto stopped = session();
  stopped->cancel();
  EXPECT_THAT(stopped->feed(ids.data(), 9, CRIA_LOGITS_NONE, nullptr),
              fails(CRIA_CANCELLED, "cancelled after 0 of 9 positions"));
  EXPECT_TRUE(stopped->feed(ids.data(), 9, CRIA_LOGITS_NONE, nullptr).ok());
}

TEST_F(CudaSessionTest, SessionsOfOneModelRunSideBySide) {
  std::vector<std::vector<float>> results(4, std::vector<float>(45));
  std::vector<std::thread> threads;
  for (auto &result : results)
    threads.emplace_back([&] {
      auto own = session();
      for (size_t i = 0; i < ids.size(); ++i)
        EXPECT_TRUE(
            own->feed(&ids[i], 1, CRIA_LOGITS_LAST, &result[i * 5]).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const auto &result : results)
    expectNear(result, fakeLogits(ids));
}

TEST_F(CudaSessionTest, ASessionOutlivesTheHandleOfItsModel) {
  auto last = session();
  model.reset();
  artifact.reset();
  std::vector<float> logits(45);
  ASSERT_TRUE(last->feed(ids.data(), 9, CRIA_LOGITS_ALL, logits.data()).ok());
  expectNear(logits, fakeLogits(ids));
}

// Each computes what it would in a model with its set alone, also by the graph
// of its decode steps, and also where it changes its mind.
TEST_F(CudaSessionTest, SessionsChooseAmongLoraSets) {
  auto opened = open(withAdapters(cudaManifest()));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  artifact = *opened;
  folder.write("model.safetensors", safetensorsOf(adaptedTensors()));
  load();
  std::string folders[] = {writeAdapter(folder, "first", {1, 2, 2, 3}),
                           writeAdapter(folder, "second", {-4, 0.5, 0, 16})};
  auto feed = [&](Session &session) {
    std::vector<float> logits(25), last(5);
    EXPECT_TRUE(session.rewind(0).ok());
    EXPECT_TRUE(
        session.feed(ids.data(), 5, CRIA_LOGITS_ALL, logits.data()).ok());
    for (size_t i = 5; i < 8; ++i) {
      EXPECT_TRUE(session.feed(&ids[i], 1, CRIA_LOGITS_LAST, last.data()).ok());
      logits.insert(logits.end(), last.begin(), last.end());
    }
    return logits;
  };
  std::vector<float> alone[2], plain = feed(*session());
  std::shared_ptr<const LoraSet> sets[2];
  std::unique_ptr<Session> sessions[2];
  auto together = model;
  for (int i = 0; i < 2; ++i) {
    WeightSource source;
    source.checkpoint = folder.path();
    source.loras = {{folders[i], 1}};
    source.loraUnmerged = true;
    auto loaded = Model::load(artifact, source, {DeviceKind::Emulated});
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model = *loaded;
    alone[i] = feed(*session());
    model = together;
    auto set = LoraSet::load(model, source.loras);
    ASSERT_TRUE(set.ok()) << set.status().message();
    sets[i] = *set;
    sessions[i] = session();
    ASSERT_TRUE(sessions[i]->setLoras(sets[i]).ok());
  }
  std::vector<float> fake = fakeLogits({ids.begin(), ids.begin() + 8});
  expectNear(alone[0], fake);
  for (int i : {0, 1, 0, 1})
    EXPECT_EQ(feed(*sessions[i]), alone[i]) << i;
  ASSERT_TRUE(sessions[0]->setLoras(sets[1]).ok());
  EXPECT_EQ(feed(*sessions[0]), alone[1]);
  ASSERT_TRUE(sessions[1]->setLoras(nullptr).ok());
  EXPECT_EQ(feed(*sessions[1]), plain);
  // A set may lie where one was that is gone.
  struct Copy : BoundLoras {
    Copy(const BoundLoras &of, uint64_t slots) : BoundLoras(slots) {
      for (uint64_t slot = 0; slot < slots; ++slot)
        addresses[slot] = of.find(slot);
    }
  };
  std::optional<Copy> here;
  auto backend = std::move(*model->newBackend(1));
  for (int i : {0, 1}) {
    std::vector<float> logits(20);
    Step step = {ids.data(), 4, 0, 0, logits.data()};
    step.loras = &here.emplace(sets[i]->bound(), model->manifest().slots);
    Status status = backend->step(step);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(logits, std::vector(alone[i].begin(), alone[i].begin() + 20));
  }
  inject("cuMemAlloc:1:2");
  EXPECT_THAT(LoraSet::load(model, {{folders[0], 1}}).status(),
              fails(CRIA_RESOURCE_EXHAUSTED, "for LoRA adapters"));
}

// A mask and biases count on the device as on the host.
TEST_F(CudaSessionTest, DrawsByBiasesAndAllowedIds) {
  auto cpu = bind(DeviceKind::Cpu);
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  std::vector<int32_t> drawn[2];
  for (int onGpu : {0, 1}) {
    auto fed = onGpu ? session() : std::move(*Session::create(*cpu, 1));
    auto sampler = Sampler::create(SamplerOptions(), 5);
    ASSERT_TRUE(sampler.ok());
    for (uint32_t mask : {0u, 0x15u, 0x2u, 0x0u}) {
      ASSERT_TRUE(sampler
                      ->allow(mask ? std::vector<uint32_t>{mask}
                                   : std::vector<uint32_t>())
                      .ok());
      ASSERT_TRUE(sampler->setBias({{4, mask == 0x15u ? 1e4f : 0.0f}}).ok());
      auto id = fed->draw(ids.data(), 2, *sampler);
      ASSERT_TRUE(id.ok()) << id.status().message();
      drawn[onGpu].push_back(*id);
    }
  }
  EXPECT_EQ(drawn[1], drawn[0]);
  EXPECT_EQ(drawn[1][1], 4);
  EXPECT_EQ(drawn[1][2], 1);
}

TEST_F(CudaSessionTest, SaysWhatItRunsOn) {
  EXPECT_THAT(model->device(), HasSubstr(", sm_80, CUDA driver 13.0; sm_80 "
                                         "PTX, loaded in "));
  EXPECT_FALSE(model->onCpu());
  EXPECT_EQ(model->slots(), nullptr);
  EXPECT_EQ(model->copiedBytes(), 48u);
  EXPECT_EQ(model->mappedBytes(), 0u);
}

// Where the driver checks no bounds, one allocation holds all weights.
TEST_F(CudaSessionTest, OneAllocationMayHoldAllWeights) {
  auto bound = bind(DeviceKind::Cuda);
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  model = *bound;
  std::vector<float> logits(45);
  ASSERT_TRUE(
      session()->feed(ids.data(), 9, CRIA_LOGITS_ALL, logits.data()).ok());
  expectNear(logits, fakeLogits(ids));
}

TEST_F(CudaSessionTest, LoadsAndFreesAgainAndAgain) {
  for (int i = 0; i < 20; ++i)
    expectWorks();
}

TEST_F(CudaSessionTest, ConvertsWeightsOfOtherTypes) {
  std::vector<TestTensor> tensors = fakeTensors();
  std::vector<double> wide = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> norm = {1, 2};
  tensors[0] = {"embed.weight", "F64", {5, 2}, bytesOf(wide)};
  tensors[1] = {"layers.0.norm.weight", "F32", {2}, bytesOf(norm)};
  folder.write("model.safetensors", safetensorsOf(tensors));
  load();
  EXPECT_EQ(model->warnings().size(), 2u);
  std::vector<float> logits(45);
  ASSERT_TRUE(
      session()->feed(ids.data(), 9, CRIA_LOGITS_ALL, logits.data()).ok());
  expectNear(logits, fakeLogits(ids));
}

TEST_F(CudaSessionTest, DrawsTheRandomWeightsOfTheCpu) {
  std::vector<float> logits[2] = {std::vector<float>(45),
                                  std::vector<float>(45)};
  DeviceKind kinds[] = {DeviceKind::Cpu, DeviceKind::Emulated};
  for (int i = 0; i < 2; ++i) {
    auto drawn = Model::load(artifact, {std::nullopt, 42}, {kinds[i]});
    ASSERT_TRUE(drawn.ok()) << drawn.status().message();
    auto fed = Session::create(*drawn, 1);
    ASSERT_TRUE(
        (*fed)->feed(ids.data(), 9, CRIA_LOGITS_ALL, logits[i].data()).ok());
  }
  expectNear(logits[1], logits[0]);
}

// A matrix in blocks, random, from a checkpoint, and from the file that keeps
// them, which is made and then read; the CPU's are tested.
TEST_F(CudaSessionTest, QuantizesAsTheCpuDoes) {
  nlohmann::json manifest =
      withMatrix(cudaManifest(), "matrix", 41, 288, "q8_0");
  auto opened = open(manifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  std::vector<TestTensor> tensors = fakeTensors();
  std::vector<float> values;
  for (int i = 0; i < 41 * 288; ++i)
    values.push_back(std::sin(static_cast<float>(i * i)));
  tensors.push_back({"matrix.weight", "F32", {41, 288}, bytesOf(values)});
  folder.write("model.safetensors", safetensorsOf(tensors));
  for (int times = 0; times < 4; ++times) {
    WeightSource source;
    if (times > 0)
      source.checkpoint = folder.path();
    if (times > 1)
      source.cache = folder.path("cache");
    std::vector<uint8_t> blocks[2];
    auto onGpu = Model::load(*opened, source, {DeviceKind::Emulated});
    source.cache.clear();
    auto onCpu = Model::load(*opened, source, {DeviceKind::Cpu});
    ASSERT_TRUE(onCpu.ok() && onGpu.ok()) << onGpu.status().message();
    for (auto &each : blocks)
      each.resize(41 * 288 / 32 * 34);
    memcpy(blocks[0].data(), (*onCpu)->slots()[5], blocks[0].size());
    auto &bound = static_cast<const cuda::Model &>((*onGpu)->bound());
    cuda::Current current(*bound.context());
    auto stream = cuda::makeStream(bound.context());
    ASSERT_TRUE(stream.ok());
    ASSERT_EQ((*bound.context())
                  ->cuMemcpyDtoHAsync(blocks[1].data(), bound.slot(5),
                                      blocks[1].size(), stream->get()),
              CUDA_SUCCESS);
    ASSERT_TRUE(bound.context()->wait(stream->get(), "a test").ok());
    EXPECT_EQ(blocks[0], blocks[1]) << times;
    EXPECT_EQ((*onGpu)->warnings(), (*onCpu)->warnings());
  }
}

TEST_F(CudaSessionTest, GoesOnFromASavedState) {
  auto first = session();
  ASSERT_TRUE(first->feed(ids.data(), 6, CRIA_LOGITS_NONE, nullptr).ok());
  std::vector<std::byte> state(first->stateBytes());
  ASSERT_TRUE(first->save(state.data()).ok());
  auto second = session(), third = session();
  ASSERT_TRUE(second->restore(state.data(), state.size()).ok());
  ASSERT_TRUE(third->copy(*first).ok());
  std::vector<float> all = fakeLogits(ids);
  for (Session *other : {second.get(), third.get()}) {
    std::vector<float> logits(5);
    ASSERT_TRUE(other->feed(&ids[6], 3, CRIA_LOGITS_LAST, logits.data()).ok());
    expectNear(logits, {all.end() - 5, all.end()});
  }
  // What fails leaves an empty session.
  inject("cuMemcpyHtoDAsync:1:719");
  EXPECT_EQ(second->restore(state.data(), state.size()).code(), CRIA_ABORTED);
  EXPECT_EQ(second->position(), 0);
}

// The fake model's cache holds ids, which need no rotation.
TEST_F(CudaSessionTest, DropsPositionsFromWithin) {
  nlohmann::json manifest = cudaManifest();
  manifest["caches"][0]["shape"] = {2, 1, 12, 1};
  manifest["caches"][0]["rope"] = {-1, -1};
  artifact = *open(manifest);
  load();
  auto left = session();
  ASSERT_TRUE(left->feed(ids.data(), 8, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_TRUE(left->drop(2, 5).ok());
  EXPECT_EQ(left->position(), 5);
  std::vector<float> logits(5), expected = fakeLogits({1, 0, 3, 1, 0, 2});
  ASSERT_TRUE(left->feed(&ids[8], 1, CRIA_LOGITS_LAST, logits.data()).ok());
  expectNear(logits, {expected.end() - 5, expected.end()});
  // What fails leaves the positions in front.
  inject("cuMemcpyHtoDAsync:1:719");
  EXPECT_EQ(left->drop(2, 5).code(), CRIA_ABORTED);
  EXPECT_EQ(left->position(), 2);
}

TEST_F(CudaSessionTest, FeedsForChosenRows) {
  std::vector<float> logits(10), all = fakeLogits(ids);
  const int64_t rows[] = {1, 6};
  Outputs outputs;
  outputs.logits = {CRIA_LOGITS_NONE, logits.data(), rows, 2};
  ASSERT_TRUE(session()->feed(ids.data(), 9, outputs).ok());
  expectNear({logits.begin(), logits.begin() + 5},
             {all.begin() + 5, all.begin() + 10});
  expectNear({logits.begin() + 5, logits.end()},
             {all.begin() + 30, all.begin() + 35});
}

// Biases and allowed ids count on the host, with the ids that the CPU draws.
TEST_F(CudaSessionTest, DrawsWithBiasesAndAllowedIds) {
  SamplerOptions options;
  options.seed = 7;
  for (size_t count : {1, 3}) {
    auto onDevice = Sampler::create(options, 5);
    auto onHost = Sampler::create(options, 5);
    for (auto *sampler : {&*onDevice, &*onHost}) {
      ASSERT_TRUE(sampler->setBias({{3, 4.0f}}).ok());
      ASSERT_TRUE(sampler->allow({0b11010}).ok());
    }
    auto drawing = session(), feeding = session();
    for (size_t at = 0; at + count <= ids.size(); at += count) {
      auto length = static_cast<int64_t>(count);
      std::vector<float> row(5);
      auto id = drawing->draw(&ids[at], length, *onDevice);
      ASSERT_TRUE(id.ok()) << id.status().message();
      ASSERT_TRUE(
          feeding->feed(&ids[at], length, CRIA_LOGITS_LAST, row.data()).ok());
      EXPECT_EQ(*id, *onHost->sample(row.data()));
      EXPECT_TRUE(0b11010 >> *id & 1);
    }
  }
}
