#include "runtime/session/Devices.h"

#include "test/runtime/cuda/Fixtures.h"

using namespace cria;
using namespace cria::test;
using testing::HasSubstr;

namespace {

class DevicesTest : public CudaTest {
protected:
  void SetUp() override {
    environment.set("CRIA_EMULATOR_DEVICES", "2");
    CudaTest::SetUp();
  }
  uint64_t freeOf(int index) {
    auto info = deviceInfo(DeviceKind::Emulated, index);
    EXPECT_TRUE(info.ok()) << info.status().message();
    return info->free;
  }
  auto loadOn(int index) {
    return Model::load(artifact, {folder.path(), 0},
                       {DeviceKind::Emulated, index});
  }
};

} // namespace

TEST_F(DevicesTest, AreCountedAndDescribed) {
  auto count = deviceCount(DeviceKind::Emulated);
  ASSERT_TRUE(count.ok()) << count.status().message();
  EXPECT_EQ(*count, 2);
  auto info = deviceInfo(DeviceKind::Emulated, 1);
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->name, "Cria emulated sm_80");
  EXPECT_EQ(info->capability, 80);
  EXPECT_EQ(info->memory, uint64_t(40) << 30);
  EXPECT_EQ(info->free, info->memory);
  EXPECT_THAT(deviceInfo(DeviceKind::Emulated, 2).status(),
              fails(CRIA_NOT_FOUND, "there is no device 2, expected 0 to 1"));
}

// Weights and caches lie on the device that was asked for, and nowhere else.
TEST_F(DevicesTest, AModelIsOnTheOneThatIsAskedFor) {
  uint64_t before = freeOf(0);
  ASSERT_EQ(freeOf(1), before);
  for (int index : {0, 1}) {
    auto model = loadOn(index);
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto session = Session::create(*model, 0);
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_LT(freeOf(index), before);
    EXPECT_EQ(freeOf(1 - index), before);
    std::vector<float> logits(45);
    ASSERT_TRUE(
        (*session)->feed(ids.data(), 9, CRIA_LOGITS_ALL, logits.data()).ok());
    expectNear(logits, fakeLogits(ids));
  }
  EXPECT_THAT(loadOn(2).status(),
              fails(CRIA_NOT_FOUND, "there is no device 2, expected 0 to 1"));
  EXPECT_THAT(loadOn(-1).status(), fails(CRIA_NOT_FOUND, "no device -1"));
}

TEST_F(DevicesTest, AreNamed) {
  auto named = [](const char *name) { return deviceNamed(name); };
  EXPECT_EQ(named("cuda:1")->kind, DeviceKind::Cuda);
  EXPECT_EQ(named("cuda:1")->index, 1);
  EXPECT_EQ(named("emulated:0")->index, 0);
  EXPECT_EQ(named("cuda")->index, std::nullopt);
  for (const char *wrong :
       {"cpu:0", "auto:1", "cuda:", "cuda:-1", "cuda:01", "cuda:1x", "gpu"})
    EXPECT_THAT(named(wrong).status(),
                fails(CRIA_INVALID_ARGUMENT,
                      "expected auto, cpu, cuda, cuda:1 or emulated"));
}

// A driver that says nothing of its memory, or gives no context.
TEST_F(DevicesTest, MayNotTellWhatIsFree) {
  inject("cuCtxCreate:1:2");
  auto info = deviceInfo(DeviceKind::Emulated, 0);
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->free, 0u);
  EXPECT_GT(info->memory, 0u);
}
