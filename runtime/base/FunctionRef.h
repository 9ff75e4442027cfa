/// A function that a callee calls and does not keep.
#pragma once

#include <type_traits>
#include <utility>

namespace cria {

template <typename Signature> class FunctionRef;

/// Refers to any callable, which must outlive the call it is passed to; costs
/// no allocation, unlike std::function.
template <typename R, typename... Args> class FunctionRef<R(Args...)> {
public:
  template <typename F, typename = std::enable_if_t<
                            !std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F &&function)
      : object(const_cast<void *>(static_cast<const void *>(&function))),
        call([](void *object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F> *>(object))(
              std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const {
    return call(object, std::forward<Args>(args)...);
  }

private:
  void *object;
  R (*call)(void *, Args...);
};

} // namespace cria
