/// Requests to memory: the accesses of a warp's lanes by one instruction.
///
/// A GPU serves a request to global memory by sectors of 32 bytes, and a
/// request to shared memory by wavefronts: in a wavefront, each of 32 banks
/// gives one word of 4 bytes to all lanes that want that word. Which lanes make
/// one request must be found out, because threads are fibers: a lane runs until
/// it must wait, and may execute a load many times before the next lane comes
/// to it.
///
/// The n-th execution of an instruction by each lane, counted from the last
/// join, counts as one request. A join is a barrier, or an instruction for
/// which all lanes of the warp wait, such as a shuffle. At a join no lane is in
/// the middle of a request, and lanes that executed an instruction less often
/// than others are in step again. A predicated access that is switched off
/// counts as an execution that asks for nothing.
///
/// A request is counted when all lanes have come to it, at the latest at the
/// join. If branches make lanes execute an instruction in different rounds of a
/// loop without a join, accesses of different rounds may be counted as one
/// request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace cria::emulator {

enum class RequestKind : uint8_t {
  GlobalLoad,
  GlobalStore,
  GlobalAtomic,
  GlobalCopy, ///< read by cp.async
  SharedLoad,
  SharedStore,
  SharedAtomic,
  SharedCopy, ///< written by cp.async
  MatrixLoad, ///< ldmatrix
  MatrixStore,
  LocalLoad,
  LocalStore
};

constexpr bool isGlobal(RequestKind kind) {
  return kind <= RequestKind::GlobalCopy;
}
constexpr bool isLocal(RequestKind kind) {
  return kind >= RequestKind::LocalLoad;
}

/// An instruction that accesses memory. An access by a generic address has
/// three sites, for global, shared and local memory in this order.
struct RequestSite {
  int line; ///< of the PTX text
  RequestKind kind;
  bool isGeneric = false; ///< the first of three
};

/// The accesses of lanes that make one request.
struct Request {
  uint32_t came = 0;      ///< lanes
  uint8_t bytes[32] = {}; ///< 0: the lane asks for nothing
  uint64_t addresses[32];
};

/// Sums over requests.
struct RequestCounts {
  uint64_t bytes = 0;    ///< that each lane asked for
  uint64_t requests = 0; ///< that asked for anything
  uint64_t used = 0;     ///< bytes of each request, bytes of several lanes once
  uint64_t parts = 0;    ///< sectors, or wavefronts
  uint64_t least = 0;    ///< the fewest parts that `used` fits in; for shared
                         ///< memory, the parts without a conflict
  uint64_t first = 0;    ///< sectors of loads that their block had not loaded
  uint64_t unseen = 0; ///< accesses of lanes that were not joined to requests:
                       ///< only `bytes` has them

  RequestCounts &operator+=(const RequestCounts &other);
};

/// Joins the accesses of a block's lanes into requests and counts them.
class Requests {
public:
  /// Begins a block.
  void start(const std::vector<RequestSite> &sites, uint32_t threads);
  const RequestSite &siteAt(uint32_t site) const { return (*sites)[site]; }
  /// Thread `index` accesses `bytes` at `address`.
  void add(uint32_t index, uint32_t site, uint64_t address, uint32_t bytes);
  /// All lanes of the warp have come to one instruction, or ended.
  void join(uint32_t warp);
  /// Ends the block and adds its counts.
  void finish(std::vector<RequestCounts> &to);

private:
  /// A site's requests of one warp since its last join.
  struct Track {
    uint64_t join = 0;          ///< the warp's last when `next` was set to 0
    uint32_t next[32];          ///< executions by each lane
    bool full = false;          ///< no more requests are noted
    std::vector<uint32_t> open; ///< places in `pool`, or kSettled
  };

  Request *find(Track &track, uint32_t execution);
  void settle(uint32_t site, uint32_t &place);
  RequestCounts countsOf(RequestKind kind, const Request &request);
  void forget(uint32_t warp);

  const std::vector<RequestSite> *sites = nullptr;
  size_t siteCount = 0;
  uint32_t threads = 0;
  std::vector<Track> tracks;                  ///< by warp and site
  uint64_t lastJoin = 0;                      ///< joins are numbered from 1
  std::vector<uint64_t> joins;                ///< the last of each warp
  std::vector<std::vector<uint32_t>> touched; ///< sites by warp, since its join
  std::vector<Request> pool;
  std::vector<uint32_t> unused; ///< places in `pool`
  std::vector<RequestCounts> counts;
  std::unordered_set<uint64_t> loaded; ///< sectors, by the block
};

} // namespace cria::emulator
