"""Compiles Llama-family models ahead of time and runs them.

    import cria

    cria.compile("examples/tiny/config.json", out="tiny.cria")
    model = cria.load("tiny.cria", weights="examples/tiny")
    print(model.generate("Once upon a time", temperature=0))
    for token in model.generate("Once upon a time", stream=True):
        print(token.text, end="", flush=True)

``compile`` runs ``cria-compile``. The rest is the C library ``libcria``, which comes
with the package. Every error is an :class:`Error` with a
``status``. An artifact is a program: load only those that you trust.
"""

from cria import _native
from cria._artifact import Artifact, ArtifactInfo, Check, inspect
from cria._async import AsyncBatch
from cria._batch import Batch, BatchInfo, BatchResult, Finish, SequenceInfo
from cria._compiler import compile, compiler, emit
from cria._errors import (
    Aborted,
    Cancelled,
    CompileError,
    CriaWarning,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Incompatible,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Status,
    Unavailable,
    Unimplemented,
)
from cria._grammar import Grammar, Matcher
from cria._model import (
    Conversation,
    DeviceInfo,
    Lora,
    LoraSet,
    Model,
    ModelInfo,
    devices,
    load,
)
from cria._ranks import Ranks, join_ranks
from cria._sampling import (
    Generation,
    Sampler,
    Sampling,
    log_probabilities,
    top_log_probabilities,
)
from cria._session import Completion, Outputs, Session, Timings, Token
from cria._text import ChatTemplate, TextStream, Tokenizer

#: The version of the C library.
__version__: str = _native.text_of(_native.lib.cria_version())

__all__ = [
    "Aborted",
    "Artifact",
    "ArtifactInfo",
    "AsyncBatch",
    "Batch",
    "BatchInfo",
    "BatchResult",
    "Cancelled",
    "ChatTemplate",
    "Check",
    "CompileError",
    "Completion",
    "Conversation",
    "CriaWarning",
    "DataLoss",
    "DeadlineExceeded",
    "DeviceInfo",
    "Error",
    "FailedPrecondition",
    "Finish",
    "Generation",
    "Grammar",
    "Incompatible",
    "Internal",
    "InvalidArgument",
    "Lora",
    "LoraSet",
    "Matcher",
    "Model",
    "ModelInfo",
    "NotFound",
    "OutOfRange",
    "Outputs",
    "PermissionDenied",
    "Ranks",
    "ResourceExhausted",
    "Sampler",
    "Sampling",
    "SequenceInfo",
    "Session",
    "Status",
    "TextStream",
    "Timings",
    "Token",
    "Tokenizer",
    "Unavailable",
    "Unimplemented",
    "compile",
    "compiler",
    "devices",
    "emit",
    "inspect",
    "join_ranks",
    "load",
    "log_probabilities",
    "top_log_probabilities",
]
