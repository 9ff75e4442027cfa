// RUN: cria-opt --llama-verify-helpers --split-input-file --verify-diagnostics %s

// Functions that nothing calls may be anything: symbol-dce removes them. Two
// functions may call a third.
func.func private @third(%i: index) -> index {
  return %i : index
}
func.func private @second(%i: index) -> index {
  %0 = func.call @third(%i) : (index) -> index
  return %0 : index
}
func.func private @first(%i: index) -> index {
  %0 = func.call @second(%i) : (index) -> index
  %1 = func.call @third(%0) : (index) -> index
  return %1 : index
}
func.func private @unused(%i: index) -> index {
  %0 = func.call @unused(%i) : (index) -> index
  return %0 : index
}
func.func @forward(%i: index) -> index {
  %0 = func.call @first(%i) : (index) -> index
  return %0 : index
}

// -----

func.func @helper(%i: index) -> index {
  return %i : index
}
func.func @forward(%i: index) -> index {
  // expected-error @below {{expected a call of a private function, got @helper}}
  %0 = func.call @helper(%i) : (index) -> index
  return %0 : index
}

// -----

// expected-error @below {{expected @helper to be one block, got 0}}
func.func private @helper(index) -> index
func.func @forward(%i: index) -> index {
  %0 = func.call @helper(%i) : (index) -> index
  return %0 : index
}

// -----

func.func private @helper(%i: index) -> index {
  return %i : index
}
func.func @forward(%i: index) -> index {
  // expected-error @below {{expected a call without 'no_inline'}}
  %0 = func.call @helper(%i) {no_inline} : (index) -> index
  return %0 : index
}

// -----

func.func private @a(%i: index) -> index {
  %0 = func.call @b(%i) : (index) -> index
  return %0 : index
}
func.func private @b(%i: index) -> index {
  // expected-error @below {{expected functions that do not call themselves, got a call of @a in it}}
  %0 = func.call @a(%i) : (index) -> index
  return %0 : index
}
func.func @forward(%i: index) -> index {
  %0 = func.call @a(%i) : (index) -> index
  return %0 : index
}

// -----

// A function that is used, but not by a call, is not removed by symbol-dce.
func.func private @helper(%i: index) -> index {
  // expected-error @below {{expected functions that do not call themselves, got a call of @helper in it}}
  %0 = func.call @helper(%i) : (index) -> index
  return %0 : index
}
func.func @forward(%i: index) -> index {
  %0 = func.constant @helper : (index) -> index
  return %i : index
}

// -----

// The @helper of the other module is not the program's.
func.func @forward(%i: index) -> index {
  // expected-error @below {{expected one module, got another in it}}
  builtin.module {
    func.func private @helper(%j: index) -> index {
      return %j : index
    }
    func.func @other(%j: index) -> index {
      %0 = func.call @helper(%j) : (index) -> index
      return %0 : index
    }
  }
  return %i : index
}

// -----

// expected-error @below {{expected @forward to be public}}
func.func private @forward()
