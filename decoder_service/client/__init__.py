"""The client of the decoder service. Needs grpc and protobuf alone; never imports torch or NumPy.

from decoder_service.client import Client, Sampling, Stop, chat

with Client("127.0.0.1:50051") as client:
    for step in client.generate(chat("Name three rivers."), stop=Stop(max_tokens=64)):
        print(step.text, end="", flush=True)
"""

from decoder_service.client.client import Client
from decoder_service.client.errors import (
    Cancelled,
    ClientError,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Overloaded,
    PreconditionFailed,
    ServerError,
    Unreachable,
)
from decoder_service.client.generation import (
    DraftStats,
    FinishReason,
    Generation,
    Logprobs,
    Model,
    ServerInfo,
    SourceStats,
    Step,
    Timings,
    TokenLogprob,
    TokenSource,
    Usage,
)
from decoder_service.client.request import Drafts, Lookahead, Message, Prompt, Sampling, Stop, chat
from decoder_service.client.stream import GenerationStream

__all__ = [
    "Cancelled",
    "Client",
    "ClientError",
    "DeadlineExceeded",
    "DraftStats",
    "Drafts",
    "FinishReason",
    "Generation",
    "GenerationStream",
    "InvalidRequest",
    "Logprobs",
    "Lookahead",
    "Message",
    "Model",
    "NotFound",
    "Overloaded",
    "PreconditionFailed",
    "Prompt",
    "Sampling",
    "ServerError",
    "ServerInfo",
    "SourceStats",
    "Step",
    "Stop",
    "Timings",
    "TokenLogprob",
    "TokenSource",
    "Unreachable",
    "Usage",
    "chat",
]
