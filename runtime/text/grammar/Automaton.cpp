#include "runtime/text/grammar/Automaton.h"

#include <algorithm>
#include <string>

namespace cria::grammar {

using Kind = Network::Node::Kind;

size_t Automaton::Hash::operator()(const Places &places) const {
  uint64_t hash = places.size();
  for (auto [node, frame] : places) {
    hash ^= uint64_t{node} << 32 | frame;
    hash *= 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

Automaton::Automaton(const Network &network) : network(&network) {
  stateOf({}, false); // dead
  frameOf({});        // below the stacks
}

// ---- Budgets ---------------------------------------------------------------

void Automaton::beginWork() {
  left = mostWork;
  usedBefore = used;
  tooAmbiguous = false;
}

bool Automaton::spend(uint64_t units) {
  left -= std::min(left, units);
  return left > 0;
}

Status Automaton::check() const {
  if (tooAmbiguous)
    return Status(CRIA_RESOURCE_EXHAUSTED,
                  "the grammar may be read in more than " +
                      std::to_string(mostItems) + " ways at once");
  if (left == 0)
    return Status(CRIA_RESOURCE_EXHAUSTED,
                  "the grammar takes too much work for a token");
  if (used - usedBefore > mostMemory)
    return Status(CRIA_RESOURCE_EXHAUSTED,
                  "the grammar takes too much memory for a token");
  return Status();
}

// ---- Steps -----------------------------------------------------------------

Automaton::FrameId Automaton::frameOf(Places returns) {
  std::sort(returns.begin(), returns.end());
  returns.erase(std::unique(returns.begin(), returns.end()), returns.end());
  if (auto found = frameIds.find(returns); found != frameIds.end())
    return found->second;
  auto id = static_cast<FrameId>(frames.size());
  frames.push_back(returns); // first: memory may end at either line
  used += 128 + 2 * sizeof(Place) * returns.size();
  returns.shrink_to_fit(); // it had room for what came twice
  frameIds.emplace(std::move(returns), id);
  return id;
}

StateId Automaton::stateOf(Places items, bool complete) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  if (auto found = stateIds[complete].find(items);
      found != stateIds[complete].end())
    return found->second;
  auto id = static_cast<StateId>(states.size());
  State &made = states.emplace_back();
  made.items = items;
  made.complete = complete;
  used += 256 + 2 * sizeof(Place) * items.size();
  items.shrink_to_fit();
  stateIds[complete].emplace(std::move(items), id);
  return id;
}

/// Notes a way that was there before the last byte.
void Automaton::push(Place place) {
  spend(4);
  if (place.first == accept)
    complete = true;
  else if (network->leadsOn(place.first) && seen.insert(place).second &&
           spend(32))
    work.push_back(place);
}

/// Follows the ways that begin at `place`, up to their next byte.
void Automaton::goOn(Place place) {
  push(place);
  while (!work.empty()) {
    auto [id, frame] = work.back();
    work.pop_back();
    const Network::Node &node = network->node(id);
    switch (node.kind) {
    case Kind::Bytes:
      items.push_back({id, frame});
      break;
    case Kind::Split:
      push({node.what, frame});
      push({node.next, frame});
      break;
    case Kind::End:
      for (Place back : frames[frame])
        if (left > 0)
          push(back);
      break;
    case Kind::Call:
      noteCall(node, frame);
      if (network->nullable(node.what))
        push({node.next, frame});
      break;
    }
  }
}

/// Notes where the rule of a call goes on when it ends.
void Automaton::noteCall(const Network::Node &node, FrameId frame) {
  auto &[rule, returns] = calls[network->rank(node.what)];
  rule = node.what;
  if (network->node(node.next).kind != Kind::End) {
    returns.push_back({node.next, frame});
    return;
  }
  const Places &callers = frames[frame]; // a tail call
  if (spend(4 * callers.size()))
    returns.insert(returns.end(), callers.begin(), callers.end());
}

/// Begins a rule whose callers are all noted.
void Automaton::begin(RuleId rule, FrameId frame) {
  const std::vector<NodeId> &firsts = network->firsts(rule);
  spend(firsts.size());
  for (NodeId id : firsts) {
    const Network::Node &node = network->node(id);
    if (node.kind == Kind::Bytes)
      items.push_back({id, frame});
    else
      noteCall(node, frame);
  }
}

/// Begins all called rules. Returns the state of the ways that were found.
StateId Automaton::close() {
  while (!calls.empty() && items.size() <= 4 * mostItems && check().ok()) {
    auto [rule, returns] = std::move(calls.begin()->second);
    calls.erase(calls.begin());
    begin(rule, frameOf(std::move(returns)));
  }
  tooAmbiguous |= items.size() > mostItems;
  return check().ok() ? stateOf(std::move(items), complete) : dead;
}

/// Forgets the step before, which may have ended anywhere for want of memory.
void Automaton::beginStep() {
  work.clear();
  items.clear();
  calls.clear();
  seen.clear();
  complete = false;
}

Result<StateId> Automaton::start() {
  beginWork();
  beginStep();
  FrameId whole = frameOf({{accept, 0}});
  complete = network->nullable(network->root());
  begin(network->root(), whole);
  StateId made = close();
  Status status = check();
  return status.ok() ? Result<StateId>(made) : Result<StateId>(status);
}

StateId Automaton::makeStep(StateId state, size_t byteClass) {
  beginStep();
  uint8_t byte = network->byteOf(byteClass);
  spend(8 + states[state].items.size());
  for (auto [id, frame] : states[state].items) {
    const Network::Node &node = network->node(id);
    if (network->set(node.what)[byte])
      goOn({node.next, frame});
  }
  StateId made = close();
  if (!check().ok()) // not what the state would be
    return dead;
  std::vector<StateId> &next = states[state].next;
  if (next.empty()) {
    next.assign(network->classCount(), unknown);
    used += next.size() * sizeof(StateId);
  }
  return next[byteClass] = made;
}

Result<StateId> Automaton::step(StateId state, std::string_view bytes) {
  beginWork();
  for (char byte : bytes)
    if (state != dead)
      state = stepClass(state, network->classOf(static_cast<uint8_t>(byte)));
  Status status = check();
  return status.ok() ? Result<StateId>(state) : Result<StateId>(status);
}

std::string Automaton::forced(StateId state, size_t most) {
  beginWork();
  std::string text;
  while (text.size() < most && !states[state].complete) {
    Network::ByteSet bytes;
    for (auto [node, frame] : states[state].items)
      bytes |= network->set(network->node(node).what);
    if (bytes.count() != 1 || !spend(states[state].items.size()))
      break;
    auto byte = static_cast<uint8_t>(bytes._Find_first());
    state = stepClass(state, network->classOf(byte));
    if (!check().ok())
      break;
    text.push_back(static_cast<char>(byte));
  }
  return text;
}

// ---- Masks -----------------------------------------------------------------

/// Finds the ids whose bytes may follow, by a walk through the tree.
Status Automaton::walk(StateId state, const TokenTrie &trie) {
  StateId path[TokenTrie::mostBytes + 1] = {state};
  State made; // its ids, until there are too many of them
  size_t words = (static_cast<size_t>(trie.idLimit()) + 31) / 32;
  for (size_t at = 0; at < trie.size();) {
    const TokenTrie::Node &node = trie[at];
    StateId &here = path[node.depth];
    here = stepClass(path[node.depth - 1], network->classOf(node.byte));
    if (here == dead) {
      if (Status status = check(); !status.ok())
        return status;
      at = node.after;
      continue;
    }
    for (size_t i = node.ids; i < trie[at + 1].ids; ++i)
      made.ids.push_back(trie.id(i));
    ++at;
  }
  if (made.ids.size() > words) {
    made.words.resize(words);
    for (int32_t id : made.ids)
      made.words[id / 32] |= 1u << id % 32;
    made.ids = {};
  }
  State &known = states[state];
  known.hasMask = true;
  known.words = std::move(made.words);
  known.ids = std::move(made.ids);
  used += sizeof(int32_t) * (known.words.size() + known.ids.size());
  return Status();
}

Status Automaton::mask(StateId state, const TokenTrie &trie, uint32_t *bits,
                       size_t count) {
  beginWork();
  if (!states[state].hasMask)
    if (Status status = walk(state, trie); !status.ok())
      return status;
  const State &known = states[state];
  std::copy_n(known.words.begin(), std::min(count, known.words.size()), bits);
  for (int32_t id : known.ids)
    if (static_cast<size_t>(id) / 32 < count)
      bits[id / 32] |= 1u << id % 32;
  return Status();
}

// ---- Forgetting ------------------------------------------------------------

std::shared_ptr<const StateId> Automaton::hold(StateId state) {
  std::shared_ptr<StateId> &handle = states[state].handle;
  if (!handle) {
    handle = std::make_shared<StateId>(state);
    used += 32;
  }
  return handle;
}

/// Takes a state of another automaton of the same network; `lost` if it needs
/// too much memory. `taken` has the numbers that the other's frames got.
StateId Automaton::take(const Automaton &other, StateId state,
                        std::vector<FrameId> &taken) {
  std::set<FrameId> missing;
  std::vector<FrameId> work;
  auto reach = [&](const Places &places) {
    for (auto [node, frame] : places)
      if (taken[frame] == notTaken && missing.insert(frame).second)
        work.push_back(frame);
  };
  auto translated = [&](Places places) {
    for (auto &[node, frame] : places)
      frame = taken[frame];
    return places;
  };
  const State &from = other.states[state];
  for (reach(from.items); !work.empty();) {
    FrameId frame = work.back();
    work.pop_back();
    reach(other.frames[frame]);
  }
  size_t before = used;
  for (FrameId frame : missing) { // a frame's returns have lower numbers
    if (used - before > mostMemory / 2)
      return lost;
    taken[frame] = frameOf(translated(other.frames[frame]));
  }
  return stateOf(translated(from.items), from.complete);
}

void Automaton::forget() {
  Automaton fresh(*network);
  std::vector<FrameId> taken(frames.size(), notTaken);
  std::vector<std::pair<StateId *, StateId>> renewed;
  for (StateId id = 0; id < states.size(); ++id) {
    const std::shared_ptr<StateId> &handle = states[id].handle;
    if (handle.use_count() <= 1)
      continue;
    StateId made = fresh.take(*this, id, taken);
    renewed.push_back({handle.get(), made});
    if (made != lost)
      fresh.states[made].handle = handle;
  }
  fresh.kept = fresh.used;
  for (auto [handle, number] : renewed) // memory cannot end from here on
    *handle = number;
  *this = std::move(fresh);
}

} // namespace cria::grammar
