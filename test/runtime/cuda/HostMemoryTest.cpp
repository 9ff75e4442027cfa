/// The host runs out of memory, at every allocation in turn.
#include "test/runtime/Allocations.h"
#include "test/runtime/cuda/Fixtures.h"

#include <new>

using namespace cria;
using namespace cria::test;

namespace {

class CudaHostMemoryTest : public CudaTest {
protected:
  /// Loads and feeds; allocation `nth` fails. False where it did.
  bool survives(int64_t nth, std::vector<float> &logits) {
    failAllocation(nth);
    try {
      auto model = Model::load(artifact, {weights, 0}, {DeviceKind::Emulated});
      EXPECT_TRUE(model.ok()) << model.status().message();
      auto session = Session::create(*model, 0);
      EXPECT_TRUE(session.ok()) << session.status().message();
      for (int i = 0; i < 2; ++i)
        EXPECT_TRUE((*session)
                        ->feed(&ids[i], 1, CRIA_LOGITS_LAST, &logits[i * 5])
                        .ok());
      EXPECT_TRUE(
          (*session)->feed(&ids[2], 7, CRIA_LOGITS_ALL, &logits[10]).ok());
    } catch (const std::bad_alloc &) {
      failAllocation(0);
      return false;
    }
    failAllocation(0);
    return true;
  }

  std::string weights = folder.path();
};

} // namespace

TEST_F(CudaHostMemoryTest, EveryAllocationMayFail) {
  if (!allocationsCanFail)
    GTEST_SKIP() << "ThreadSanitizer allocates";
  std::vector<float> logits(45);
  int64_t nth = 1;
  while (!survives(nth, logits))
    // All of the first ones, then ever fewer: there are thousands.
    nth += 1 + nth / (triesAll() ? 64 : 16);
  EXPECT_GT(nth, 100);
  expectNear(logits, fakeLogits(ids));
  expectWorks();
}
