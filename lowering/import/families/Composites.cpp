/// Models of several parts, a text and a tower. A row says which keys the whole
/// model has and what its projector is; texts and towers have rows of their
/// own.
#include "lowering/import/families/Families.h"

using namespace cria;

/// The sizes of Llama 2 7B, which configs of models around it leave out.
static constexpr llvm::StringLiteral kLlama2 =
    R"({"hidden_size": 4096, "intermediate_size": 11008,
        "num_attention_heads": 32, "num_hidden_layers": 32,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-6})";

static constexpr Family kFamilies[] = {
    {.modelType = "gemma3",
     .architecture = "Gemma3ForConditionalGeneration",
     .models = "Gemma 3 4B to 27B",
     .differs = "the text of a model that reads images",
     .keys = "",
     .defaults = R"({"tie_word_embeddings": true})",
     .ignored = "boi_token_id boi_token_index eoi_token_id eoi_token_index "
                "image_token_id image_token_index initializer_range "
                "mm_tokens_per_image vision_config",
     .text = "gemma3_text",
     .textDefaults = R"({"hidden_size": 2304})",
     .seesAhead = true,
     .parts = {{.name = "vision", .config = "vision_config"},
               {.name = "projector", .hasTower = false, .hasProjector = true}},
     .projector =
         {.linears = {"multi_modal_projector.mm_input_projection_weight", "",
                      ""},
          .norm = "multi_modal_projector.mm_soft_emb_norm",
          .isTransposed = true}},
    {.modelType = "gemma4",
     .architecture = "Gemma4ForConditionalGeneration",
     .models = "Gemma 4 26B-A4B, 31B, E2B and E4B",
     .differs = "the text of a model that reads images and hears",
     .keys = "",
     .defaults = R"({"tie_word_embeddings": true})",
     .ignored = "audio_config audio_token_id boa_token_id boi_token_id "
                "eoa_token_id eoa_token_index eoi_token_id image_token_id "
                "initializer_range video_token_id vision_config "
                "vision_soft_tokens_per_image",
     .text = "gemma4_text"},
    {.modelType = "llava",
     .architecture = "LlavaForConditionalGeneration",
     .models = "LLaVA 1.5",
     .differs = "a model that reads images",
     .keys = "",
     .ignored = "ignore_index image_seq_length image_token_id "
                "image_token_index initializer_range "
                "multimodal_projector_bias projector_hidden_act vision_config "
                "vision_feature_layer vision_feature_select_strategy",
     .text = "llama",
     .textDefaults = kLlama2,
     .parts = {{.name = "vision",
                .config = "vision_config",
                .hasProjector = true,
                .layer = -2}},
     .projector = {.linears = {"multi_modal_projector.linear_1",
                               "multi_modal_projector.linear_2", ""}}},
    {.modelType = "mistral3",
     .architecture = "Mistral3ForConditionalGeneration",
     .models = "Mistral Small 3.1 and 3.2, Ministral 3",
     .differs = "the text of a model that reads images",
     .keys = "",
     .defaults = R"({"tie_word_embeddings": true})",
     .ignored = "image_token_id image_token_index initializer_range "
                "multimodal_projector_bias projector_hidden_act "
                "spatial_merge_size vision_config vision_feature_layer",
     .text = "mistral"},
    {.modelType = "openvla",
     .architecture = "OpenVLAForActionPrediction",
     .models = "OpenVLA",
     .differs = "a model that reads images and says what a robot does: two "
                "towers",
     .keys = "",
     .ignored = "arch_specifier auto_map hf_llm_id image_resize_strategy "
                "image_sizes llm_backbone_id llm_max_length n_action_bins "
                "norm_stats output_projector_states pad_to_multiple_of "
                "timm_model_ids timm_override_act_layers "
                "use_fused_vision_backbone vision_backbone_id",
     .text = "llama",
     .textDefaults = kLlama2,
     .parts = {{.name = "vision", .place = 0, .layer = -2},
               {.name = "vision2", .place = 1, .layer = -2},
               {.name = "projector", .hasTower = false, .hasProjector = true}},
     .projector = {.linears = {"projector.fc1", "projector.fc2",
                               "projector.fc3"},
                   .widening = 4}},
    {.modelType = "qwen3_5",
     .architecture = "Qwen3_5ForConditionalGeneration",
     .models = "Qwen 3.5 and 3.6 without experts",
     .differs = "the text of a model that reads images",
     .keys = "",
     .defaults = R"({"tie_word_embeddings": false})",
     .ignored = "image_token_id initializer_range video_token_id vision_config "
                "vision_end_token_id vision_start_token_id",
     .text = "qwen3_5_text"},
    {.modelType = "qwen3_5_moe",
     .architecture = "Qwen3_5MoeForConditionalGeneration",
     .models = "Qwen 3.5 and 3.6 with experts, such as 35B-A3B",
     .differs = "the text of a model that reads images",
     .keys = "",
     .defaults = R"({"tie_word_embeddings": false})",
     .ignored = "image_token_id initializer_range video_token_id vision_config "
                "vision_end_token_id vision_start_token_id",
     .text = "qwen3_5_moe_text"},
    {.modelType = "qwen3_vl",
     .architecture = "Qwen3VLForConditionalGeneration",
     .models = "Qwen 3 VL",
     .differs = "the text of a model that reads images",
     .keys = "",
     .defaults = R"({"tie_word_embeddings": false})",
     .ignored = "image_token_id initializer_range video_token_id vision_config "
                "vision_end_token_id vision_start_token_id",
     .text = "qwen3_vl_text"},
};

llvm::ArrayRef<Family> cria::compositeFamilies() { return kFamilies; }
