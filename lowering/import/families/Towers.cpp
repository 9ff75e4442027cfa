/// Vision towers.
#include "lowering/import/families/Families.h"

using namespace cria;

static constexpr llvm::StringLiteral kVisionKeys =
    "hidden_act image_size layer_norm_eps num_channels patch_size";

static constexpr llvm::StringLiteral
    kDinoKeys = "hidden_act image_size layer_norm_eps mlp_ratio num_channels "
                "patch_size",
    kRegisterKeys = "hidden_act image_size layer_norm_eps mlp_ratio "
                    "num_channels num_register_tokens patch_size",
    kDinoIgnored =
        "apply_layernorm attention_probs_dropout_prob drop_path_rate "
        "hidden_dropout_prob interpolate_antialias interpolate_offset "
        "layerscale_value out_features out_indices reshape_hidden_states "
        "stage_names use_mask_token",
    kDinoDefaults = R"({"hidden_act": "gelu", "hidden_size": 768,
        "image_size": 224, "layer_norm_eps": 1e-6, "mlp_ratio": 4,
        "num_attention_heads": 12, "num_channels": 3,
        "num_hidden_layers": 12, "patch_size": 14})",
    kRegisterDefaults = R"({"hidden_act": "gelu", "hidden_size": 768,
        "image_size": 224, "layer_norm_eps": 1e-6, "mlp_ratio": 4,
        "num_attention_heads": 12, "num_channels": 3,
        "num_hidden_layers": 12, "num_register_tokens": 4, "patch_size": 16})";

static constexpr VisionModules
    kDinoVision = {.patches = "embeddings.patch_embeddings.projection",
                   .positions = "embeddings.position_embeddings",
                   .classRow = "embeddings.cls_token",
                   .areStacked = true},
    kRegisterVision = {.patches = "embeddings.patch_embeddings.projection",
                       .positions = "embeddings.position_embeddings",
                       .classRow = "embeddings.cls_token",
                       .registers = "embeddings.register_tokens",
                       .areStacked = true};

static constexpr AttentionModules kTimmAttention = {.query = "attn.q",
                                                    .key = "attn.k",
                                                    .value = "attn.v",
                                                    .out = "attn.proj",
                                                    .fused = "attn.qkv"};

static constexpr AttentionModules kDinoAttention = {
    .query = "attention.attention.query",
    .key = "attention.attention.key",
    .value = "attention.attention.value",
    .out = "attention.output.dense"};

static constexpr Family kFamilies[] = {
    {.modelType = "clip_vision_model",
     .architecture = "CLIPVisionModel CLIPVisionModelWithProjection",
     .models = "CLIP's vision tower",
     .differs = "reads patches of an image: a row for the class, learned "
                "positions, a norm in front of the layers and none behind; "
                "layer norms, an MLP without a gate, biases",
     .keys = kVisionKeys,
     .defaults = R"({"hidden_act": "quick_gelu", "hidden_size": 768,
         "image_size": 224, "intermediate_size": 3072, "layer_norm_eps": 1e-5,
         "num_attention_heads": 12, "num_channels": 3,
         "num_hidden_layers": 12, "patch_size": 32})",
     .ignored = "dropout initializer_factor projection_dim vocab_size",
     .vision = {.patches = "vision_model.embeddings.patch_embedding",
                .hasBias = false,
                .positions =
                    "vision_model.embeddings.position_embedding.weight",
                .classRow = "vision_model.embeddings.class_embedding",
                .norm = "vision_model.pre_layrnorm"},
     .norm = kLayerNorm,
     .norms = {"layer_norm1", "", "layer_norm2", ""},
     .layers = "vision_model.encoder.layers",
     .lastNorm = "",
     .attention = {.out = "self_attn.out_proj"},
     .mlp = {"", "mlp.fc1", "mlp.fc2"},
     .biases = kBiases},
    {.modelType = "dinov2",
     .architecture = "Dinov2Model",
     .models = "DINOv2",
     .differs = "as clip_vision_model, and a norm behind the layers instead of "
                "in front; a factor for each column of what attention and MLP "
                "compute",
     .keys = kDinoKeys,
     .defaults = kDinoDefaults,
     .fixed = R"({"qkv_bias": true, "use_swiglu_ffn": false})",
     .ignored = kDinoIgnored,
     .vision = kDinoVision,
     .norm = kLayerNorm,
     .norms = {"norm1", "", "norm2", ""},
     .layers = "encoder.layer",
     .attentionFactor = "layer_scale1.lambda1",
     .mlpFactor = "layer_scale2.lambda1",
     .lastNorm = "layernorm",
     .attention = kDinoAttention,
     .mlp = {"", "mlp.fc1", "mlp.fc2"},
     .biases = kBiases},
    {.modelType = "dinov2_with_registers",
     .architecture = "Dinov2WithRegistersModel",
     .models = "DINOv2 with registers",
     .differs = "as dinov2, and registers",
     .keys = kRegisterKeys,
     .defaults = kRegisterDefaults,
     .fixed = R"({"qkv_bias": true, "use_swiglu_ffn": false})",
     .ignored = kDinoIgnored,
     .vision = kRegisterVision,
     .norm = kLayerNorm,
     .norms = {"norm1", "", "norm2", ""},
     .layers = "encoder.layer",
     .attentionFactor = "layer_scale1.lambda1",
     .mlpFactor = "layer_scale2.lambda1",
     .lastNorm = "layernorm",
     .attention = kDinoAttention,
     .mlp = {"", "mlp.fc1", "mlp.fc2"},
     .biases = kBiases},
    {.modelType = "siglip_vision_model",
     .architecture = "SiglipVisionModel",
     .models = "SigLIP's vision tower",
     .differs = "reads patches of an image: learned positions; layer norms, an "
                "MLP without a gate, biases",
     .keys = kVisionKeys,
     .defaults = R"({"hidden_act": "gelu_pytorch_tanh", "hidden_size": 768,
         "image_size": 224, "intermediate_size": 3072, "layer_norm_eps": 1e-6,
         "num_attention_heads": 12, "num_channels": 3,
         "num_hidden_layers": 12, "patch_size": 16})",
     .ignored = "num_image_tokens projection_dim vision_use_head",
     .vision = {.patches = "vision_model.embeddings.patch_embedding",
                .positions =
                    "vision_model.embeddings.position_embedding.weight"},
     .norm = kLayerNorm,
     .norms = {"layer_norm1", "", "layer_norm2", ""},
     .layers = "vision_model.encoder.layers",
     .lastNorm = "vision_model.post_layernorm",
     .attention = {.out = "self_attn.out_proj"},
     .mlp = {"", "mlp.fc1", "mlp.fc2"},
     .biases = kBiases},
    {.modelType = "vit_large_patch14_reg4_dinov2.lvd142m",
     .architecture = "",
     .models = "",
     .differs = "a tower of openvla, by timm's name: as "
                "dinov2_with_registers; registers and class have no position",
     .keys = "hidden_act image_size layer_norm_eps num_channels "
             "num_register_tokens patch_size",
     .defaults = R"({"hidden_act": "gelu", "hidden_size": 1024,
         "intermediate_size": 4096, "layer_norm_eps": 1e-6,
         "num_attention_heads": 16, "num_channels": 3,
         "num_hidden_layers": 24, "num_register_tokens": 4,
         "patch_size": 14})",
     .vision = {.patches = "vision_backbone.featurizer.patch_embed.proj",
                .positions = "vision_backbone.featurizer.pos_embed",
                .classRow = "vision_backbone.featurizer.cls_token",
                .registers = "vision_backbone.featurizer.reg_token",
                .areStacked = true,
                .placesClass = false},
     .norm = kLayerNorm,
     .norms = {"norm1", "", "norm2", ""},
     .layers = "vision_backbone.featurizer.blocks",
     .attentionFactor = "ls1.scale_factor",
     .mlpFactor = "ls2.scale_factor",
     .lastNorm = "vision_backbone.featurizer.norm",
     .attention = kTimmAttention,
     .mlp = {"", "mlp.fc1", "mlp.fc2"},
     .biases = kBiases},
    {.modelType = "vit_so400m_patch14_siglip_224",
     .architecture = "",
     .models = "",
     .differs = "the other tower of openvla: as siglip_vision_model",
     .keys = kVisionKeys,
     .defaults = R"({"hidden_act": "gelu", "hidden_size": 1152,
         "intermediate_size": 4304, "layer_norm_eps": 1e-6,
         "num_attention_heads": 16, "num_channels": 3,
         "num_hidden_layers": 27, "patch_size": 14})",
     .vision = {.patches = "vision_backbone.fused_featurizer.patch_embed.proj",
                .positions = "vision_backbone.fused_featurizer.pos_embed",
                .areStacked = true},
     .norm = kLayerNorm,
     .norms = {"norm1", "", "norm2", ""},
     .layers = "vision_backbone.fused_featurizer.blocks",
     .lastNorm = "vision_backbone.fused_featurizer.norm",
     .attention = kTimmAttention,
     .mlp = {"", "mlp.fc1", "mlp.fc2"},
     .biases = kBiases},
};

llvm::ArrayRef<Family> cria::towerFamilies() { return kFamilies; }
