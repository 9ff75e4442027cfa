/// Which pages of the KV caches are whose: a page has as many references as
/// sequences share it, and is written by a sequence that has the only one.
///
/// A full page can be found again by its content. What a page holds depends on
/// its own ids and on all ids before it, so it is entered under a key of both:
/// the number of the page before it, which stands for the ids before, and its
/// own ids. Numbers are never used again, hence a page whose predecessor went
/// is not found any more. The first page of a text comes after a number that
/// stands for what the text is computed with.
///
/// A page without references that was entered stays, until a page is needed
/// and none is free: then the one that is unused for the longest goes.
///
/// States and window pages are pages of no positions: what they hold depends on
/// the ids up to their ends alone, so they are entered under the number of the
/// page that holds the last of these ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cria {

/// Pages 0, 1, ... of a number of positions. Knows their numbers and ids, not
/// their bytes.
class PagePool {
public:
  /// Numbers below this one are not those of pages: they begin chains.
  static constexpr uint64_t firstKey = uint64_t(1) << 63;
  static constexpr int32_t none = -1;

  PagePool(int64_t pages, int64_t positions);

  /// A page with one reference, whatever it holds; none where all are in use.
  int32_t take();
  /// Adds a reference.
  void share(int32_t page) {
    if (all[index(page)].references++ == 0)
      use(page);
  }
  /// Gives a reference back.
  void release(int32_t page);
  bool isShared(int32_t page) const { return all[index(page)].references > 1; }
  /// Whether the page can be found.
  bool isEntered(int32_t page) const { return all[index(page)].key != 0; }
  /// A number that no page has or will have, to begin a chain.
  uint64_t newKey() { return nextKey++; }

  /// Enters a full page of `ids` that follows the page, or chain, `before`, and
  /// returns its number. Where one of the same content is known already, that
  /// one's number, and `page` is not entered.
  uint64_t enter(int32_t page, uint64_t before, const int32_t *ids);

  struct Found {
    int32_t page;
    uint64_t key; // its number, for the page after it
  };
  /// The page of `ids` that follows `before`; none if it is not known.
  int32_t lookUp(uint64_t before, const int32_t *ids);
  /// The same, with a reference more.
  Found find(uint64_t before, const int32_t *ids);

  int64_t pages() const { return static_cast<int64_t>(all.size()); }
  int64_t positions() const { return width; }
  /// Pages that `take` has for the asking: free ones, and kept ones.
  int64_t available() const {
    return static_cast<int64_t>(unused.size()) + kept;
  }
  /// Pages without references that can be found.
  int64_t keptPages() const { return kept; }

private:
  struct Page {
    int32_t references = 0;
    int32_t next = none; // of the same bucket, where it is entered
    int32_t older = none, newer = none; // of those that are kept
    uint64_t key = 0;                   // 0: not entered
    uint64_t before = 0;
  };

  static size_t index(int32_t page) { return static_cast<size_t>(page); }
  int32_t *idsOf(int32_t page) {
    return ids.data() + index(page) * static_cast<size_t>(width);
  }
  int32_t &bucket(uint64_t before, const int32_t *ids);
  void forget(int32_t page);
  void keep(int32_t page);
  void use(int32_t page);

  int64_t width;
  std::vector<Page> all;
  std::vector<int32_t> ids;             // (pages, positions), where entered
  std::vector<int32_t> unused;          // free pages
  std::vector<int32_t> buckets;         // the first page of each
  int32_t oldest = none, newest = none; // of those that are kept
  int64_t kept = 0;
  uint64_t nextKey = firstKey;
};

} // namespace cria
