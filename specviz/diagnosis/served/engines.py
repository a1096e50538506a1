"""Which engine stands behind an address: vLLM, SGLang or llama.cpp."""

from specviz.diagnosis.served.engine import Engine, first_of
from specviz.diagnosis.served.http import Server, ServerError
from specviz.diagnosis.served.llamacpp import LlamaCpp
from specviz.diagnosis.served.sglang import Sglang
from specviz.diagnosis.served.vllm import Vllm

ENGINES = {"vllm": Vllm, "sglang": Sglang, "llamacpp": LlamaCpp}
# What only one of them has, for those behind a proxy that hides who owns the models.
OWN = (("/props", "default_generation_settings", LlamaCpp), ("/get_model_info", "model_path", Sglang))


def find(server: Server, leading: int | None = None) -> Engine:
    """The engine behind an address.

    Args:
        leading: likeliest tokens a position to ask for, 0 for all; None for what is usual.

    Raises:
        ServerError: if it is not one of the three, or cannot be reached.
    """
    models = server.find("/v1/models")
    listed = first_of(models.get("data") if isinstance(models, dict) else None)
    kind = ENGINES.get(str(listed.get("owned_by", "")).lower())
    model = listed.get("id", "")
    for path, field, own in OWN:
        found = server.find(path) if kind is None else None
        if isinstance(found, dict) and field in found:
            kind, model = own, model or found.get("model_path", "")
    version = server.find("/version") if kind is None and listed else None
    if isinstance(version, dict) and "version" in version:
        kind = Vllm
    if kind is None:
        raise ServerError(
            f"{server.url} is not known for vLLM, SGLang or llama.cpp: neither /v1/models, /props, "
            "/get_model_info nor /version says so"
        )
    meta = listed.get("meta")
    length = listed.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)
    return kind(server, str(model)[:300], length if type(length) is int and length > 0 else None, leading)
