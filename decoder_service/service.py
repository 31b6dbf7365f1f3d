"""A replica's life: load the model, check it, serve, stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal

import grpc
import numpy as np
import structlog
import torch
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1 import decoder_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio  # type: ignore[attr-defined]  # not in the stubs
from grpc_reflection.v1alpha import reflection

from decoder_service import __version__
from decoder_service.calibration import Calibration
from decoder_service.config import ENV_PREFIX, ConfigError, DecoderConfig
from decoder_service.convert import SOURCE_NAMES, SOURCES, Defaults
from decoder_service.cost_measurement import measured_cost
from decoder_service.draft import DraftSource, Source
from decoder_service.drafts.index import IndexConfig, IndexSource
from decoder_service.drafts.lookahead import LookaheadSource
from decoder_service.drafts.model import DraftModelOptions, DraftModelSource
from decoder_service.drafts.prompt import OwnTextSource
from decoder_service.embedded_model import locate_model
from decoder_service.engine import Engine
from decoder_service.engine_config import EngineConfig
from decoder_service.feedback import Feedback
from decoder_service.index_channel import open_index_channel
from decoder_service.model import LoadedModel, Model, ModelOptions, load_model
from decoder_service.planner import Planner
from decoder_service.request import DraftChoice, GenerationRequest, ModelLimits, StopConditions
from decoder_service.sampling import SamplingParams
from decoder_service.scheduler import Scheduler
from decoder_service.self_test import SelfTestReport, run_self_test
from decoder_service.servicer import DecoderServicer, ServedModel
from decoder_service.step_cost import StepCost
from decoder_service.stream import Stream
from decoder_service.thread_team import on_passing_thread
from decoder_service.tokens import Tokenizer

SERVICE_NAME = pb.DESCRIPTOR.services_by_name["DecoderService"].full_name
MAX_MESSAGE_BYTES = 8 << 20
FEEDBACK_FLUSH_S = 2.0
LAST_WORDS_S = 1.0  # for streams that were just told why they end

SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),  # a second replica on the port fails instead of taking half of the calls
)

log = structlog.get_logger()


def load(config: DecoderConfig) -> LoadedModel:
    """Load the model that the settings name; raise ConfigError for a device that is not there."""
    if config.threads:
        torch.set_num_threads(config.threads)
    try:
        torch.empty(1, device=torch.device(config.device))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"--device (DRAFTWELL_DECODER_DEVICE): {config.device!r} cannot be used: {error}"
        ) from error
    return _load(config, "model")


def load_draft_model(config: DecoderConfig, target: LoadedModel) -> LoadedModel | None:
    """Load the model that drafts for ``target``, if the settings name one; raise ConfigError for one that cannot."""
    if not config.draft_model:
        return None
    draft = _load(config, "draft_model")
    if draft.fingerprint != target.fingerprint:
        raise ConfigError(
            f"{_setting('draft_model')}: the tokenizer of {config.draft_model!r} (vocabulary of "
            f"{draft.model.vocab_size}, fingerprint {draft.fingerprint}) is not that of the model {config.model!r} "
            f"(vocabulary of {target.model.vocab_size}, fingerprint {target.fingerprint})"
        )
    return draft


def _load(config: DecoderConfig, setting: Literal["model", "draft_model"]) -> LoadedModel:
    name: str = getattr(config, setting)
    files = locate_model(name, config.cache_folder)
    max_rows = config.prefill_rows + config.max_streams + config.draft_nodes
    options = ModelOptions(
        getattr(torch, config.dtype),
        torch.device(config.device),
        config.max_context_len,
        config.cache_positions,
        max_rows,
    )
    try:
        return load_model(files, options)
    except Exception as error:  # the libraries raise whatever a damaged file leads them to
        raise ConfigError(
            f"{_setting(setting)}: {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def step_cost(config: DecoderConfig, model: Model) -> StepCost:
    """What steps cost: measured, unless the settings say it."""
    if config.row_cost is not None:
        return StepCost.linear(config.row_cost)
    return StepCost(measured_cost(model, model.max_rows, config.cache_folder))


def _setting(name: str) -> str:
    """A setting's flag and variable."""
    return f"--{name.replace('_', '-')} ({ENV_PREFIX}{name.upper()})"


def warm_up(engine: Engine) -> None:
    """Have everything compiled, or loaded, before anybody waits for it: draft and decode a text that repeats."""
    prompt = np.array([1, 2, 3, 4] * 6, dtype=np.int32)
    drafts = DraftChoice(frozenset({Source.OWN, Source.DRAFT_MODEL}), max_nodes=8, namespace="", learn=False)
    stop = StopConditions(max_tokens=4, ignore_eos=True)
    engine.add(GenerationRequest("warm-up", prompt, SamplingParams(), stop, drafts), lambda event: None)
    while not engine.is_idle:
        engine.step()


async def serve(config: DecoderConfig) -> None:
    """Serve until SIGINT or SIGTERM, then let requests in flight finish. Raises where it cannot start."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    loading = asyncio.create_task(_serve(config, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await loading
    log.info("stopped")


async def _serve(config: DecoderConfig, stop: asyncio.Event) -> None:
    loaded = await on_passing_thread(lambda: load(config))
    draft_model = await on_passing_thread(lambda: load_draft_model(config, loaded))
    report = await on_passing_thread(lambda: run_self_test(loaded.model))
    (log.info if report.is_exact else log.warning)("self-test", exact=report.is_exact, detail=report.detail)
    if stop.is_set():
        return
    drafting = Drafting.open(config, loaded, draft_model)
    cost = await on_passing_thread(lambda: step_cost(config, loaded.model))
    engine = drafting.engine(config, loaded, cost)
    await on_passing_thread(lambda: warm_up(engine))
    scheduler = Scheduler(engine, config.max_queue)
    scheduler.start()
    try:
        served = _served_model(config, loaded, report)
        milliseconds = cost if config.row_cost is None else None
        servicer = DecoderServicer(served, _server_info(config, drafting.sources), scheduler, milliseconds)
        async with _listening(config, servicer, scheduler) as address:
            log.info(
                "serving", address=address, model=loaded.name, dtype=config.dtype, trie=config.trie or None
            )
            print(f"decoder-service listening on {address}", flush=True)
            await stop.wait()
    finally:
        await asyncio.to_thread(drafting.close)


@dataclass(frozen=True, slots=True)
class Drafting:
    """The draft sources and the way back to the index."""

    calibration: Calibration
    sources: list[DraftSource]
    index: IndexSource | None
    feedback: Feedback | None
    channel: grpc.Channel | None

    @classmethod
    def open(
        cls, config: DecoderConfig, loaded: LoadedModel, draft_model: LoadedModel | None = None
    ) -> Drafting:
        """Sources as the settings name them; the index only where it has an address."""
        calibration = Calibration()
        sources: list[DraftSource] = [OwnTextSource(calibration), LookaheadSource()]
        if draft_model is not None:
            options = DraftModelOptions(config.draft_depth, config.draft_width, config.draft_min_probability)
            sources.append(DraftModelSource(draft_model.model, calibration, options))
        if not config.trie:
            return cls(calibration, sources, None, None, None)
        channel = open_index_channel(config.trie)
        vocab_size = loaded.model.vocab_size
        index_config = IndexConfig(loaded.fingerprint, vocab_size, deadline_s=config.draft_deadline_ms / 1000)
        index = IndexSource(channel, index_config)
        feedback = Feedback(channel, loaded.fingerprint, vocab_size)
        return cls(calibration, [*sources, index], index, feedback, channel)

    def engine(self, config: DecoderConfig, loaded: LoadedModel, cost: StepCost) -> Engine:
        """An engine that drafts from these sources."""
        engine_config = EngineConfig(
            config.max_streams,
            config.prefill_rows,
            config.draft_nodes,
            config.min_probability,
            cost,
            reuse_prefixes=True,
        )
        planner = Planner(self.calibration)
        return Engine(
            loaded, self.sources, planner, engine_config, learn=self._learn, warnings=self._warnings
        )

    def close(self) -> None:
        """Send what the index should still learn, then end all connections."""
        if self.feedback is not None:
            self.feedback.stop(FEEDBACK_FLUSH_S)
        if self.index is not None:
            self.index.stop()
        if self.channel is not None:
            self.channel.close()

    def _learn(self, stream: Stream) -> None:
        if self.feedback is not None:
            self.feedback.learn(stream.request.drafts.namespace, stream.text, stream.num_output)

    def _warnings(self, stream: Stream) -> list[str]:
        """What kept sources from drafting for this request, or the index from learning it."""
        choice, found = stream.request.drafts, list[str]()
        if Source.DRAFT_MODEL in choice.sources and not any(
            source.source == Source.DRAFT_MODEL for source in self.sources
        ):
            found.append("the decoder has no draft model")
        if self.index is None or self.feedback is None:
            return [*found, *(["the decoder has no index"] if Source.INDEX in choice.sources else [])]
        if Source.INDEX in choice.sources:
            found.append(self.index.warning(choice.namespace, learns=choice.learn))
        if choice.learn:
            found.append(self.feedback.warning(choice.namespace))
        return [text for text in found if text]


@asynccontextmanager
async def _listening(
    config: DecoderConfig, servicer: DecoderServicer, scheduler: Scheduler
) -> AsyncIterator[str]:
    """A started gRPC server; gives the address it got. On the way out open requests may finish."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    decoder_pb2_grpc.add_DecoderServiceServicer_to_server(servicer, server)
    health = health_aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    reflection.enable_server_reflection(
        (SERVICE_NAME, "grpc.health.v1.Health", reflection.SERVICE_NAME), server
    )
    try:
        port = server.add_insecure_port(config.listen)
    except RuntimeError as error:
        raise ConfigError(
            f"--listen (DRAFTWELL_DECODER_LISTEN): cannot bind {config.listen}: is it in use?"
        ) from error
    for name in ("", SERVICE_NAME):
        await health.set(name, health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    try:
        yield f"{config.listen.rpartition(':')[0]}:{port}"
    finally:
        log.info("stopping")
        with suppress(asyncio.CancelledError):
            await health.enter_graceful_shutdown()
        await asyncio.to_thread(scheduler.stop, config.stop_grace_s)
        await server.stop(max(config.stop_grace_s, LAST_WORDS_S))  # ends as soon as no stream is open


def _server_info(config: DecoderConfig, sources: Sequence[DraftSource]) -> pb.GetServerInfoResponse:
    """What of the server does not change while it serves."""
    shape = config.lookahead_shape
    return pb.GetServerInfoResponse(
        version=__version__,
        max_streams=config.max_streams,
        max_queue=config.max_queue,
        sources=[SOURCE_NAMES[source.source] for source in sources],
        draft_nodes=config.draft_nodes,
        lookahead=pb.Lookahead(window=shape.width, ngram=shape.ngram_len, candidates=shape.num_candidates),
    )


def _served_model(config: DecoderConfig, loaded: LoadedModel, report: SelfTestReport) -> ServedModel:
    model = loaded.model
    there = {"index": bool(config.trie), "model": bool(config.draft_model)}
    names = [name for name in config.drafts.split(",") if name and there.get(name, True)]
    shape = config.lookahead_shape
    if "lookahead" in names and shape.num_rows > config.draft_nodes:
        raise ConfigError(
            f"--lookahead (DRAFTWELL_DECODER_LOOKAHEAD): {config.lookahead!r} takes {shape.num_rows} rows a step, "
            f"more than --draft-nodes {config.draft_nodes}"
        )
    namespace = config.namespace or f"default-{loaded.fingerprint[:12]}"
    description = pb.GetModelResponse(
        name=loaded.name,
        fingerprint=loaded.fingerprint,
        vocab_size=model.vocab_size,
        context_len=model.context_len,
        dtype=config.dtype,
        device=config.device,
        eos_token_ids=loaded.eos_token_ids,
        default_sources=names,
        default_namespace=namespace,
        self_test=pb.SelfTest(exact=report.is_exact, detail=report.detail),
        version=__version__,
    )
    defaults = Defaults(
        frozenset(SOURCES[name] for name in names),
        config.draft_nodes,
        namespace,
        config.learn,
        config.default_max_tokens,
        shape,
    )
    limits = ModelLimits(model.vocab_size, model.context_len)
    return ServedModel(description, Tokenizer(loaded.tokenizer), limits, defaults)
