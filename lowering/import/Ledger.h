/// The ledger: a row for every key of config.json drives what is read, what is
/// refused, the report of `--report=config` and the list in docs/config.md.
#pragma once

#include "lowering/import/Config.h"
#include "lowering/import/Reader.h"

#include <set>

namespace cria {

/// Bounds that are far larger than any model's sizes. Their products fit 64
/// bits.
inline constexpr int64_t kMaxDim = 1 << 20, kMaxHeads = 1 << 14,
                         kMaxHeadDim = 1 << 12, kMaxLayers = 1 << 12,
                         kMaxExperts = 1 << 14, kMaxVocab = 1 << 24,
                         kMaxPositions = 1 << 24, kMaxChannels = 1 << 10;

/// A config while it is read, with keys that have a meaning only together.
struct ConfigDraft : ModelConfig {
  llvm::ArrayRef<std::string> allowed; // keys that may be unknown
  bool useWindow = false;
  int64_t window = 0; // sliding_window; 0: null
  int64_t maxWindowLayers = 0;
  std::vector<std::string> layerTypes;
  std::vector<int64_t> attentionList; // full_attn_idxs
  int64_t attentionInterval = 0;      // full_attention_interval
  int64_t mambaExpansion = 2;         // mamba_expand
  int64_t mambaWidth = 0;             // mamba_d_ssm
  /// Factors of what attention and Mamba read, and of keys.
  double attentionInScale = 1, mambaInScale = 1, keyScale = 1;
  /// How Lfm2's intermediate_size becomes the width of an MLP.
  bool adjustsMlp = false;
  double mlpFactor = 1;
  int64_t mlpMultiple = 1;
  std::vector<int64_t> ropeLayers; // no_rope_layers: 1 for a layer with rope
  int64_t noRopeInterval = 0;
  double queryScalar = 0, attentionMultiplier = 0;
  double embeddingMultiplier = 0, residualMultiplier = 0, logitsScaling = 0;
  /// sliding_window_pattern: each n-th layer has no window; 0: none has.
  int64_t windowPattern = 0;
  bool rotates = true; // whether any layer has rope
  /// Layers with experts: each n-th from one to another, except those listed.
  int64_t firstExperts = 0, lastExperts = kMaxLayers, expertInterval = 1;
  std::vector<int64_t> denseList;    // mlp_only_layers
  int64_t sharedExperts = 0;         // n_shared_experts
  std::vector<std::string> mlpTypes; // mlp_layer_types
  bool mixes = true;                 // enable_moe_block
  double mlpRatio = 0;               // intermediateSize / hiddenSize
  int64_t rotaryDim = 0;             // elements of a head that are rotated
  int64_t queryDim = 0;              // qk_head_dim
  double scoreFactor = 1;            // of attention scores, by yarn
  double depthScale = 0;             // scale_depth
  int64_t baseSize = 0;              // dim_model_base
  std::vector<int64_t> ownHeads;     // layers that per_layer_config has
};

/// One key. Families that read the key honour it. In configs of other families
/// it may only have the value without effect.
struct LedgerKey {
  llvm::StringLiteral name;
  /// Whether all families read the key. Else those do whose rows name it.
  bool everywhere;
  /// The value without effect, as JSON. "" if every value has an effect, "any"
  /// if no value has one, "id" if no id has one.
  llvm::StringLiteral neutral;
  /// What the key sets, or why it is irrelevant or refused.
  llvm::StringLiteral note;
  /// Reads the key into the draft; null if the key is read together with
  /// others.
  void (*read)(ObjectReader &reader, llvm::StringRef key, ConfigDraft &draft);

  bool isReadBy(const Family &family) const;
  /// "llama, qwen3", or "all".
  std::string readers() const;
};

/// All keys, sorted by name. They are read in this order.
llvm::ArrayRef<LedgerKey> ledgerKeys();

/// Fails on the first key of `config`, in alphabetical order, that is refused,
/// and on unsupported values; else fills draft.ledger. The keys in `added` are
/// the family's defaults, which the file does not give.
void checkKeys(const nlohmann::json &config, const std::set<std::string> &added,
               ObjectReader &reader, ConfigDraft &draft);

/// Refuses an unknown key: `what` says where it is unknown. If the user allows
/// the key by its full name, such as "rope_scaling.alpha", the ledger has it.
void refuseUnknown(ObjectReader &reader, llvm::StringRef key,
                   const nlohmann::json &value, llvm::StringRef what,
                   ConfigDraft &draft);

/// The function of an MLP by its name, or nothing.
std::optional<GateFunction> gateNamed(llvm::StringRef name);

/// Reads every key of the draft's family that has a reader of its own.
void readKeys(ObjectReader &reader, ConfigDraft &draft);

/// Checks that the ids that begin and end texts are in the vocabulary, which
/// must be known. Warns of an id of -1, which is read as null, and of other ids
/// that are not in the vocabulary.
void checkIds(ObjectReader &reader, ConfigDraft &draft);

/// Reads rope_theta, rope_scaling, rope_parameters and their related keys. The
/// head size must be known.
void readRope(ObjectReader &reader, ConfigDraft &draft);

/// Adds the family's defaults to a config; returns the keys that were missing.
std::set<std::string> addDefaults(const Family &family, nlohmann::json &config);

/// Reads all keys of `config`. The keys in `added` are not in the file: they
/// are defaults of the draft's family.
void readAll(const nlohmann::json &config, const std::set<std::string> &added,
             ObjectReader &reader, ConfigDraft &draft);

} // namespace cria
