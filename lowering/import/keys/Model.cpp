/// Keys of the whole model: its type and sizes, embeddings, norms, the residual
/// stream, the head, and what a vision tower reads.
#include "lowering/import/keys/Keys.h"

#include "lowering/import/Quantization.h"

using namespace cria;
using namespace cria::keys;

/// Embeddings are as wide as the hidden states, whose width is read before.
static void embeddingWidth(Reader &reader, llvm::StringRef key, Draft &draft) {
  int64_t hidden = draft.hiddenSize;
  if (int64_t width = reader.integer(key, 1, kMaxDim, hidden); width != hidden)
    reader.failKey(key, "only " + llvm::Twine(hidden) +
                            ", which is 'hidden_size', is supported, got " +
                            llvm::Twine(width));
}

static void logitScale(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.logitScale = reader.positive(key);
}

/// 0 if layers have no embeddings.
static void perLayerInputSize(Reader &reader, llvm::StringRef key,
                              Draft &draft) {
  if (reader.find(key))
    draft.perLayerInputSize = reader.integer(key, 0, kMaxHeadDim);
}

static void quantization(Reader &reader, llvm::StringRef key, Draft &draft) {
  checkQuantization(reader, key, draft);
}

/// Reads dtype, or torch_dtype, its older name.
static void dtype(Reader &reader, llvm::StringRef key, Draft &draft) {
  std::string name = reader.text("dtype", ""),
              older = reader.text("torch_dtype", "");
  if (!name.empty() && !older.empty() && name != older)
    reader.fail("'dtype' and 'torch_dtype' disagree: " + shownJson(name) +
                " and " + shownJson(older));
  name = reader.text(key, "");
  if (name == "float16")
    draft.dtype = DType::F16;
  else if (name == "bfloat16")
    draft.dtype = DType::BF16;
  else if (!name.empty() && name != "float32")
    reader.failKey(key, "expected float32, float16 or bfloat16, got " +
                            shownJson(name));
}

static constexpr LedgerKey kKeys[] = {
    {"architectures", true, "",
     "the model with a head; the base model, if tied", nullptr},
    {"bos_token_id", true, "", "begins a text, for the runtime", nullptr},
    {"dim_model_base", false, "", "logits are divided by hidden_size over this",
     optionalSize<&Draft::baseSize, kMaxDim>},
    {"dtype", true, "", "type of weights and activations", dtype},
    {"embedding_multiplier", false, "1", "factor of embeddings",
     optionalPositive<&Draft::embeddingMultiplier>},
    {"eos_token_id", true, "", "ends a text, for the runtime", nullptr},
    {"final_logit_softcapping", false, "", "soft cap of logits",
     optionalPositive<&Draft::logitSoftcap>},
    {"hidden_size", true, "", "width of the residual stream",
     size<&Draft::hiddenSize, kMaxDim>},
    {"hidden_size_per_layer_input", false, "",
     "size of a layer's own embedding of each id", perLayerInputSize},
    {"image_size", false, "", "pixels of a side of an image",
     size<&Draft::imageSize, kMaxDim>},
    {"layer_norm_eps", false, "", "epsilon of norms",
     positive<&Draft::normEps>},
    {"lm_head_multiplier", false, "", "factor of logits", logitScale},
    {"logit_scale", false, "1", "factor of logits", logitScale},
    {"logits_scaling", false, "1", "divisor of logits",
     optionalPositive<&Draft::logitsScaling>},
    {"model_type", true, "", "the family", nullptr},
    {"norm_eps", false, "", "epsilon of norms", positive<&Draft::normEps>},
    {"norm_epsilon", false, "", "epsilon of norms", positive<&Draft::normEps>},
    {"num_channels", false, "", "numbers of a pixel",
     size<&Draft::channels, kMaxChannels>},
    {"num_register_tokens", false, "", "registers",
     optionalSize<&Draft::registers, kMaxDim>},
    {"patch_size", false, "", "pixels of a side of a patch",
     size<&Draft::patchSize, kMaxDim>},
    {"quantization_config", true, "", "how the checkpoint stores weights",
     quantization},
    {"residual_multiplier", false, "1",
     "factor of what a layer adds to the residual stream",
     optionalPositive<&Draft::residualMultiplier>},
    {"rms_norm_eps", false, "", "epsilon of norms", positive<&Draft::normEps>},
    {"scale_depth", false, "",
     "factor of what a layer adds, divided by the root of the layers",
     optionalPositive<&Draft::depthScale>},
    {"scale_emb", false, "", "factor of embeddings",
     optionalPositive<&Draft::embeddingMultiplier>},
    {"scaled_weights", false, "false",
     "weights hold the factors of what linears read and make, and layers are "
     "in model.scaled_layers, as in GGUF files",
     flag<&Draft::scalesWeights>},
    {"tie_word_embeddings", true, "", "the head is the embedding",
     flag<&Draft::tied>},
    {"torch_dtype", true, "", "older name of dtype", dtype},
    {"vocab_size", true, "", "rows of the embedding",
     sizeOfText<&Draft::vocabSize, kMaxVocab>},
    {"vocab_size_per_layer_input", false, "",
     "rows of the embeddings of layers",
     optionalSize<&Draft::perLayerVocab, kMaxVocab>},
    {"word_embed_proj_dim", false, "", "width of the embedding: hidden_size",
     embeddingWidth},
};

llvm::ArrayRef<LedgerKey> keys::modelKeys() { return kKeys; }
