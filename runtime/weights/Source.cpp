#include "runtime/weights/Source.h"

#include "runtime/base/Json.h"

namespace cria {

Result<LoraSource> parseLora(const std::string &text) {
  LoraSource source;
  size_t equals = text.rfind('=');
  source.folder = text.substr(0, equals);
  if (equals != std::string::npos) {
    Result<JsonDocument> scale = parseJson(text.substr(equals + 1), "scale");
    if (!scale.ok() || !scale->root().is_number())
      return Status(CRIA_INVALID_ARGUMENT,
                    quote(text) + " is not DIR or DIR=SCALE, a number");
    source.scale = scale->root().get<double>();
  }
  if (source.folder.empty())
    return Status(CRIA_INVALID_ARGUMENT, quote(text) + " names no folder");
  return source;
}

} // namespace cria
