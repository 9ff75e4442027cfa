/// The ledger of all keys that transformers writes for these families, from
/// version 4.28 to 5, and of other keys in published files. Keys that are not
/// in the ledger are refused. The keys themselves are in the folder keys.
#include "lowering/import/Ledger.h"

#include "lowering/import/keys/Keys.h"

#include "runtime/base/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace cria;
using namespace cria::keys;
using nlohmann::json;

static std::vector<LedgerKey> allKeys() {
  std::vector<LedgerKey> all;
  for (llvm::ArrayRef<LedgerKey> keys :
       {attentionKeys(), expertKeys(), layerKeys(), mlpKeys(), modelKeys(),
        positionKeys(), recurrenceKeys(), unreadKeys()})
    all.insert(all.end(), keys.begin(), keys.end());
  llvm::sort(all, [](const LedgerKey &a, const LedgerKey &b) {
    return a.name < b.name;
  });
  return all;
}

llvm::ArrayRef<LedgerKey> cria::ledgerKeys() {
  static const std::vector<LedgerKey> keys = allKeys();
  return keys;
}

bool LedgerKey::isReadBy(const Family &family) const {
  return (everywhere && !family.ignores(name)) || family.reads(name);
}

std::string LedgerKey::readers() const {
  if (everywhere)
    return "all";
  std::vector<std::string> names;
  for (const Family &family : families())
    if (family.reads(name))
      names.push_back(family.modelType.str());
  return llvm::join(names, ", ");
}

/// Checks a key that the family does not read. Returns why the key does not
/// matter.
static std::string checkIdle(const LedgerKey &entry, const json &value,
                             Reader &reader) {
  if (entry.neutral == "any" || entry.neutral == "id")
    return entry.note.str();
  if (entry.neutral.empty() && entry.readers().empty())
    reader.failKey(entry.name, entry.note);
  else if (entry.neutral.empty())
    reader.failKey(entry.name, "is read for " + entry.readers() +
                                   " only, got " + shownJson(value));
  else if (value != json::parse(entry.neutral))
    reader.failKey(entry.name, "only " + entry.neutral + " is supported, got " +
                                   shownJson(value));
  return "the value has no effect";
}

void cria::refuseUnknown(Reader &reader, llvm::StringRef key, const json &value,
                         llvm::StringRef what, Draft &draft) {
  std::string name = reader.fullName(key);
  if (llvm::is_contained(draft.allowed, name))
    draft.ledger.push_back(
        {name, shownJson(value), "allowed", "--allow-unknown"});
  else
    reader.failKey(key, what + ", got " + shownJson(value) +
                            "; an unknown key is never ignored, but "
                            "--allow-unknown=" +
                            shownText(name) + " lets it pass");
}

static void checkKey(llvm::StringRef key, const json &value, bool given,
                     Reader &reader, Draft &draft) {
  LedgerRow row{key.str(), shownJson(value), given ? "honoured" : "default",
                ""};
  const LedgerKey *entry =
      llvm::find_if(ledgerKeys(), [&](const LedgerKey &candidate) {
        return candidate.name == key;
      });
  bool known = entry != ledgerKeys().end();
  const json fixed = json::parse(draft.family->fixed);
  if (auto only = fixed.find(key.str()); only != fixed.end()) {
    row.fate = "irrelevant";
    row.note = "the only value that is supported";
    if (value != *only && !value.is_null())
      reader.failKey(key, "only " + only->dump() + " is supported, got " +
                              shownJson(value));
  } else if (draft.family->ignores(key)) {
    row.fate = "irrelevant";
    row.note = "has no effect on this family's text";
  } else if (known && entry->isReadBy(*draft.family)) {
    row.note = entry->note;
  } else if (known && llvm::is_contained(draft.allowed, key)) {
    row.fate = "allowed";
    row.note = "--allow-unknown";
  } else if (value.is_null()) {
    row.fate = "irrelevant";
    row.note = "null";
  } else if (known) {
    row.fate = "irrelevant";
    row.note = checkIdle(*entry, value, reader);
  } else {
    return refuseUnknown(reader, key, value, "unknown key", draft);
  }
  draft.ledger.push_back(std::move(row));
}

void cria::checkKeys(const json &config, const std::set<std::string> &added,
                     Reader &reader, Draft &draft) {
  // nlohmann's objects are sorted by key.
  for (const auto &[key, value] : config.items())
    checkKey(key, value, !added.count(key), reader, draft);
}

void cria::checkIds(Reader &reader, Draft &draft) {
  for (const char *key :
       {"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id"}) {
    const json *found = reader.find(key);
    if (!found)
      continue;
    bool isList = found->is_array() && llvm::StringRef(key) == "eos_token_id";
    bool isRead = llvm::StringRef("bos_token_id eos_token_id").contains(key);
    for (const json &id : isList ? *found : json::array({*found})) {
      std::optional<int64_t> number = wholeNumber(id);
      if (number == -1)
        draft.warnings.push_back(reader.quoted(key) +
                                 " is -1, which is no id: read as null");
      else if (number && *number >= 0 && *number < draft.vocabSize)
        continue;
      else if (isRead || !number)
        reader.failKey(
            key, "expected ids from 0 to " + llvm::Twine(draft.vocabSize - 1) +
                     ", less than 'vocab_size', got " + shownJson(*found));
      else
        draft.warnings.push_back(reader.quoted(key) + " is " +
                                 shownJson(*found) +
                                 ", which is no id of the vocabulary; nothing "
                                 "reads it");
    }
  }
}

/// A model with a head, or its base model if the head is the embedding.
static void checkArchitecture(Reader &reader, const Draft &draft) {
  const json *names = reader.find("architectures");
  auto [name, other] = draft.family->architecture.split(' ');
  if (!names || *names == json::array({name.str()}) ||
      *names == json::array({other.str()}))
    return;
  std::string expected = json::array({name.str()}).dump();
  if (!name.consume_back("ForCausalLM"))
    name.consume_back("LMHeadModel");
  if (*names != json::array({(name + "Model").str()}))
    reader.failKey("architectures", "only " + expected + " is supported, got " +
                                        shownJson(*names));
  else if (!draft.tied)
    reader.failKey("architectures",
                   shownJson(*names) +
                       " has no head, and 'tie_word_embeddings' is false; if "
                       "the checkpoint has lm_head.weight, write " +
                       expected);
}

void cria::readKeys(Reader &reader, Draft &draft) {
  for (const LedgerKey &key : ledgerKeys())
    if (key.read && key.isReadBy(*draft.family))
      key.read(reader, key.name, draft);
  checkArchitecture(reader, draft);
}
