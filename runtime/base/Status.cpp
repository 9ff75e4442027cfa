#include "runtime/base/Status.h"

namespace cria {

struct Status::Failure {
  cria_status code;
  std::string text;
};

Status::Status(cria_status code, std::string_view message)
    : failure(code == CRIA_OK ? nullptr
                              : new Failure{code, printable(message)}) {}

Status::Status(const Status &other)
    : failure(other.failure ? new Failure(*other.failure) : nullptr) {}

void Status::forget() { delete failure; }

cria_status Status::code() const { return failure ? failure->code : CRIA_OK; }

const std::string &Status::message() const {
  static const std::string nothing;
  return failure ? failure->text : nothing;
}

} // namespace cria
