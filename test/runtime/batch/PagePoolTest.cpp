#include "runtime/batch/PagePool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

using cria::PagePool;

namespace {

const int32_t abcd[] = {1, 2, 3, 4}, efgh[] = {5, 6, 7, 8};

} // namespace

TEST(PagePoolTest, GivesEveryPageOnce) {
  PagePool pool(3, 4);
  std::set<int32_t> pages = {pool.take(), pool.take(), pool.take()};
  EXPECT_EQ(pages, (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(pool.take(), PagePool::none);
  pool.release(1);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_EQ(pool.take(), 1);
}

TEST(PagePoolTest, APageLivesAsLongAsItsLastReference) {
  PagePool pool(1, 4);
  int32_t page = pool.take();
  pool.share(page);
  EXPECT_TRUE(pool.isShared(page));
  pool.release(page);
  EXPECT_FALSE(pool.isShared(page));
  EXPECT_EQ(pool.take(), PagePool::none);
  pool.release(page);
  EXPECT_EQ(pool.take(), page);
}

TEST(PagePoolTest, FindsPagesByTheirIdsAndAllBefore) {
  PagePool pool(4, 4);
  int32_t first = pool.take(), second = pool.take();
  uint64_t key = pool.enter(first, 0, abcd);
  pool.enter(second, key, efgh);
  EXPECT_EQ(pool.find(0, abcd).page, first);
  EXPECT_TRUE(pool.isShared(first));
  EXPECT_EQ(pool.find(key, efgh).page, second);
  EXPECT_EQ(pool.find(0, efgh).page, PagePool::none);
  EXPECT_EQ(pool.find(1, abcd).page, PagePool::none); // of other weights
}

TEST(PagePoolTest, KnowsOnePageOfAContent) {
  PagePool pool(4, 4);
  int32_t first = pool.take(), second = pool.take();
  uint64_t key = pool.enter(first, 0, abcd);
  EXPECT_EQ(pool.enter(second, 0, abcd), key);
  pool.release(second);
  EXPECT_EQ(pool.keptPages(), 0); // `second` is not kept
  EXPECT_EQ(pool.find(0, abcd).page, first);
}

// What is kept goes where nothing else is free, the longest unused first.
TEST(PagePoolTest, KeepsPagesUntilTheyAreNeeded) {
  PagePool pool(3, 4);
  int32_t first = pool.take(), second = pool.take();
  uint64_t key = pool.enter(first, 0, abcd);
  pool.enter(second, key, efgh);
  pool.release(second);
  pool.release(first);
  EXPECT_EQ(pool.keptPages(), 2);
  EXPECT_EQ(pool.available(), 3);
  int32_t third = pool.take(); // the one that was never used
  EXPECT_EQ(pool.keptPages(), 2);
  EXPECT_EQ(pool.find(0, abcd).page, first);
  EXPECT_EQ(pool.take(), second);
  EXPECT_EQ(pool.find(key, efgh).page, PagePool::none);
  pool.release(third);
}

// A number is not used again: what follows a page that went is not found.
TEST(PagePoolTest, ForgetsWhatFollowedAPageThatWent) {
  PagePool pool(2, 4);
  int32_t first = pool.take(), second = pool.take();
  uint64_t key = pool.enter(first, 0, abcd);
  pool.enter(second, key, efgh);
  pool.release(first);
  ASSERT_EQ(pool.take(), first);
  EXPECT_NE(pool.enter(first, 0, abcd), key);
  EXPECT_EQ(pool.find(key, efgh).page, second);
  PagePool::Found again = pool.find(0, abcd);
  EXPECT_EQ(pool.find(again.key, efgh).page, PagePool::none);
}

// Thousands of random calls beside a model that searches lists.
TEST(PagePoolTest, DoesWhatASimpleModelDoes) {
  std::mt19937 random(7);
  PagePool pool(12, 2);
  std::vector<int32_t> held;                       // a reference each
  std::list<int32_t> kept;                         // the oldest first
  std::map<int32_t, std::pair<uint64_t, int>> key; // of pages that are entered
  std::map<std::pair<uint64_t, int>, int32_t> content;
  std::map<int32_t, uint64_t> number;
  auto uses = [&](int32_t page) {
    return std::count(held.begin(), held.end(), page);
  };
  for (int i = 0; i < 20000; ++i) {
    size_t at = held.empty() ? 0 : random() % held.size();
    int id = static_cast<int>(random() % 6);
    int32_t ids[] = {id, id};
    std::vector<uint64_t> chains = {0, 1};
    for (const auto &[page, value] : number)
      chains.push_back(value);
    uint64_t before = chains[random() % chains.size()];
    switch (random() % 5) {
    case 0: {
      std::set<int32_t> used(held.begin(), held.end());
      bool isFree = used.size() + kept.size() < 12;
      int32_t page = pool.take();
      if (!isFree && kept.empty()) {
        ASSERT_EQ(page, PagePool::none);
        break;
      }
      if (!isFree) {
        ASSERT_EQ(page, kept.front());
        kept.pop_front();
        content.erase(key[page]);
        key.erase(page);
        number.erase(page);
      }
      ASSERT_EQ(uses(page), 0);
      held.push_back(page);
      break;
    }
    case 1:
    case 2: {
      if (held.empty())
        break;
      int32_t page = held[at];
      held.erase(held.begin() + static_cast<int64_t>(at));
      pool.release(page);
      if (uses(page) == 0 && key.count(page))
        kept.push_back(page);
      break;
    }
    case 3: {
      if (held.empty() || key.count(held[at]) || uses(held[at]) > 1)
        break;
      uint64_t given = pool.enter(held[at], before, ids);
      auto known = content.find({before, id});
      if (known != content.end()) {
        ASSERT_EQ(given, number[known->second]);
        break;
      }
      key[held[at]] = {before, id};
      content[{before, id}] = held[at];
      number[held[at]] = given;
      break;
    }
    case 4: {
      PagePool::Found found = pool.find(before, ids);
      auto known = content.find({before, id});
      ASSERT_EQ(found.page,
                known == content.end() ? PagePool::none : known->second);
      if (found.page == PagePool::none)
        break;
      ASSERT_EQ(found.key, number[found.page]);
      kept.remove(found.page);
      held.push_back(found.page);
      break;
    }
    }
    std::set<int32_t> used(held.begin(), held.end());
    ASSERT_EQ(pool.available(), 12 - static_cast<int64_t>(used.size()));
    ASSERT_EQ(pool.keptPages(), static_cast<int64_t>(kept.size()));
    for (int32_t page : used)
      ASSERT_EQ(pool.isShared(page), uses(page) > 1);
  }
}
