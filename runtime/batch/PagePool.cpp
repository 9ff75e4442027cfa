#include "runtime/batch/PagePool.h"

#include "runtime/Abi.h"

#include <algorithm>
#include <numeric>

namespace cria {

PagePool::PagePool(int64_t pages, int64_t positions)
    : width(positions), all(static_cast<size_t>(pages)),
      ids(static_cast<size_t>(pages * positions)),
      unused(static_cast<size_t>(pages)),
      buckets(static_cast<size_t>(pages), none) {
  // The last one is taken first: page 0 is.
  std::iota(unused.rbegin(), unused.rend(), 0);
}

/// The list of pages that `ids` after `before` is in, if it is known.
int32_t &PagePool::bucket(uint64_t before, const int32_t *ids) {
  uint64_t hash = criaFnv1a64(CRIA_FNV_OFFSET, &before, sizeof(before));
  hash = criaFnv1a64(hash, ids, static_cast<uint64_t>(width) * sizeof(*ids));
  return buckets[hash % buckets.size()];
}

int32_t PagePool::lookUp(uint64_t before, const int32_t *ids) {
  int32_t page = bucket(before, ids);
  while (page != none && !(all[index(page)].before == before &&
                           std::equal(ids, ids + width, idsOf(page))))
    page = all[index(page)].next;
  return page;
}

uint64_t PagePool::enter(int32_t page, uint64_t before, const int32_t *ids) {
  int32_t known = lookUp(before, ids);
  if (known != none)
    return all[index(known)].key;
  Page &entered = all[index(page)];
  entered.key = nextKey++;
  entered.before = before;
  std::copy_n(ids, width, idsOf(page));
  int32_t &first = bucket(before, ids);
  entered.next = first;
  first = page;
  return entered.key;
}

PagePool::Found PagePool::find(uint64_t before, const int32_t *ids) {
  int32_t page = lookUp(before, ids);
  if (page == none)
    return {none, 0};
  share(page);
  return {page, all[index(page)].key};
}

/// Takes an entered page out of its bucket.
void PagePool::forget(int32_t page) {
  Page &entered = all[index(page)];
  int32_t *at = &bucket(entered.before, idsOf(page));
  while (*at != page)
    at = &all[index(*at)].next;
  *at = entered.next;
  entered.key = 0;
}

/// Makes a page the newest of those that are kept.
void PagePool::keep(int32_t page) {
  all[index(page)].older = newest;
  all[index(page)].newer = none;
  (newest == none ? oldest : all[index(newest)].newer) = page;
  newest = page;
  ++kept;
}

/// Takes a page out of those that are kept.
void PagePool::use(int32_t page) {
  Page &taken = all[index(page)];
  (taken.older == none ? oldest : all[index(taken.older)].newer) = taken.newer;
  (taken.newer == none ? newest : all[index(taken.newer)].older) = taken.older;
  --kept;
}

int32_t PagePool::take() {
  int32_t page = oldest;
  if (!unused.empty()) {
    page = unused.back();
    unused.pop_back();
  } else if (page != none) {
    use(page);
    forget(page);
  } else {
    return none;
  }
  all[index(page)].references = 1;
  return page;
}

void PagePool::release(int32_t page) {
  Page &given = all[index(page)];
  if (--given.references > 0)
    return;
  if (given.key)
    return keep(page);
  unused.push_back(page);
}

} // namespace cria
